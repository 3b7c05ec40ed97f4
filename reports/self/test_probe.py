#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay probe`: how paths add up, and paths that add up otherwise than they declare.   usage: test_probe.py ASSAY"""
import json
import pathlib
import unittest

import jsonschema

from program import ProgramTest, assay

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "reports/schema/assay.probe-1.schema.json").read_text())


class Probe(ProgramTest):
    def probed(self, code, *args):
        result = assay("probe", *args, "--json")
        self.assertEqual(result.returncode, code, result.stderr)
        record = json.loads(result.stdout)
        jsonschema.validate(record, SCHEMA)
        return {(path["path"]["op"], one["site"], one["dtype"]): one for path in record["paths"] for one in path["sums"]}

    def test_cpu_paths_add_up_as_they_declare(self):
        found = self.probed(0, "*/cpu")
        for key in [("mhc_post", "out", "bf16"), ("dynamic_conv", "out", "f16"), ("trimul", "contraction", "f32")]:
            self.assertEqual(found[key]["tree"]["shape"], "sequential")
            self.assertEqual(found[key]["accumulator"]["bits"], 24)
            proof = {"draws": 1000, "reproduced": 1000}
            if key[2] != "f32":
                proof = {"draws": 0, "reproduced": 0, "why_not": "rounded to 16 bits, sums in most orders are equal"}
            bound, largest = found[key]["bound"], found[key]["proof"].pop("largest_error", 0)
            self.assertEqual(found[key]["proof"], proof)
            self.assertLessEqual(largest, bound["of_tree"])
            self.assertEqual(bound["of_tree"], bound["of_any_order"])  # a chain is the deepest tree
        self.assertLessEqual(found["mhc_post", "out", "f32"]["identity"]["miss_probability"], 3e-11)
        for key in [("cheri_conv_norm", "conv"), ("cheri_block", "conv"), ("cheri_conv_norm_grad", "dx")]:
            proof = found[key + ("f32",)]["proof"]
            self.assertEqual((proof["draws"], proof["reproduced"]), (1000, 1000))
            self.assertIn("which f16 has no room for", found[key + ("f16",)]["why_not"])
        mean = found["cheri_conv_norm", "mean", "f32"]
        self.assertEqual((mean["accumulator"]["bits"], mean["declared"]), (53, "sum in f64"))
        # 16 lanes of 16 terms. Products are rounded, too.
        self.assertEqual(mean["tree"]["depth"], 19)
        self.assertAlmostEqual(mean["bound"]["of_tree"] / 2**-53, 20)
        self.assertAlmostEqual(mean["bound"]["of_any_order"] / 2**-53, 255)
        self.assertIn("not known", found["cheri_conv_norm_grad", "dw", "f32"]["bound"]["why_not"])
        self.assertIn("no output of the gradient", found["cheri_conv_norm_grad", "conv", "f32"]["why_not"])

    def test_length_and_dtype(self):
        found = self.probed(0, "mhc_post/cpu", "--dtype", "f32", "--length", "9")
        self.assertEqual([one["terms"] for one in found.values()], [9])
        found = self.probed(0, "mhc_post/cpu", "--dtype", "f32", "--length", "1000")
        self.assertEqual([one["terms"] for one in found.values()], [17])
        self.fails(2, "--length", "probe", "mhc_post/cpu", "--length", "1")

    def test_a_recipe_that_is_contradicted_fails(self):
        lie = self.probed(1, "--specimens", "mhc_post/specimen.inputs_rounded", "--dtype", "f32")["mhc_post", "out", "f32"]
        self.assertEqual(lie["contradictions"], ["factors keep 8 bits; the recipe declares no rounding: 24 bits"])
        self.assertFalse(lie["is_consistent"])

    def test_another_polynomial_fails(self):
        wrong = self.probed(1, "--specimens", "mhc_post/specimen.streams_updated_in_place", "--dtype", "f32")
        self.assertIn("by the formula", wrong["mhc_post", "out", "f32"]["identity"]["difference"])

    def test_places_that_add_up_in_other_orders_are_named(self):
        found = self.probed(0, "--specimens", "dynamic_conv/specimen.later_entries_backwards", "--dtype", "f32")
        one = found["dynamic_conv", "out", "f32"]
        self.assertIn("no tree explains", one["why_not"])
        self.assertIn("the same terms give", one["differing"][0])

    def test_a_path_that_throws_or_trespasses_fails(self):
        one = self.probed(1, "--specimens", "mhc_post/specimen.writes_past_row", "--dtype", "f32")["mhc_post", "out", "f32"]
        self.assertIn("wrote past the end of the output", one["why_not"])

    def test_files(self):
        result = assay("probe", "mhc_post/cpu", "--dtype", "f32", "--out", str(self.dir / "out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("sequential", result.stdout)
        jsonschema.validate(json.loads((self.dir / "out/probe.json").read_text()), SCHEMA)
        self.assertIn("mhc_post.cpu.f32.out.svg", (self.dir / "out/probe.md").read_text())
        self.assertIn("<svg", (self.dir / "out/mhc_post.cpu.f32.out.svg").read_text())

    def test_what_is_probed_stands_beside_what_is_declared(self):
        lie = "mhc_post/specimen.inputs_rounded"
        self.assertEqual(assay("probe", "--specimens", lie, "--dtype", "f32", "--out", "out", cwd=self.dir).returncode, 1)
        file = self.dir / "out/probe.json"
        record = file.read_text()
        file.write_text(record.replace("specimen.inputs_rounded", "cpu"))
        listed = assay("list", "mhc_post/cpu", "--probed", "out/probe.json", cwd=self.dir).stdout
        words = " ".join(listed.split())
        self.assertIn("out sum in f32 probed sequential; 24 bits; rounded to nearest, ties to even; CONTRADICTS: factors "
                      "keep 8 bits", words)
        self.assertEqual(words.count("probed"), 1)  # not in f16 and bf16
        file.write_text('{"schema": "assay.run/1"}')
        self.fails(2, "not a record of probe", "list", "--probed", "out/probe.json")
        for change in ('"paths": {}', '"paths": [{}]', '"paths": [{"path": 1, "sums": []}]'):
            file.write_text('{"schema": "assay.probe/1", %s}' % change)
            self.fails(2, "out/probe.json: ", "list", "--probed", "out/probe.json")

    def test_a_tree_that_changed_is_said(self):
        for side in ("before", "after"):
            done = assay("verify", "mhc_post/cpu", "--cases", "2", "--out", side, cwd=self.dir)
            self.assertEqual(done.returncode, 0, done.stderr)
            assay("probe", "mhc_post/cpu", "--dtype", "f32", "--out", side, cwd=self.dir)
        compared = assay("compare", "before", "after", cwd=self.dir).stderr
        self.assertNotIn("tree", compared)
        file = self.dir / "after/probe.json"
        file.write_text(file.read_text().replace('"nodes":[[0,1]', '"nodes":[[0,2]').replace("sequential", "pairwise"))
        compared = assay("compare", "before/run.json", "after", cwd=self.dir).stderr
        self.assertIn("mhc_post/cpu in f32: the summation tree of the sum over x and the streams changed: sequential, now "
                      "pairwise", compared)

    def test_nothing_selected(self):
        self.fails(5, "no path matches", "probe", "mhc_post/none")
        self.fails(5, "trimul/cpu was not probed: does not serve f16", "probe", "trimul/cpu", "--dtype", "f16")


if __name__ == "__main__":
    unittest.main()
