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
            self.assertEqual(found[key]["proof"], proof)
        self.assertLessEqual(found["mhc_post", "out", "f32"]["identity"]["miss_probability"], 3e-11)
        self.assertIn("M stays in the example", found["cheri_block", "conv", "f32"]["why_not"])

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

    def test_nothing_selected(self):
        self.fails(5, "no path matches", "probe", "mhc_post/none")


if __name__ == "__main__":
    unittest.main()
