// SPDX-License-Identifier: Apache-2.0
// Blue and vermilion stay apart for every kind of colour vision; a verdict is also always a word or a sign.
#include "reports/render/html_assets.h"

namespace assay {

const std::string_view kStylesheet = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1a1e23; --muted: #5a6470; --line: #dce0e5; --panel: #f5f6f8;
  --pass: #0b5fa5; --fail: #b5400c; --doubt: #7f5a00; --cold: #0b5fa5; --warm: #c4520f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --ink: #e2e5e9; --muted: #98a2ad; --line: #2c323a; --panel: #1b1f25;
    --pass: #74b6f0; --fail: #ff946a; --doubt: #e2b64c; --cold: #74b6f0; --warm: #ffa061;
  }
}
* { box-sizing: border-box; }
html { font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
body { margin: 0 auto; padding: 28px 24px 60px; max-width: 1360px; background: var(--page); color: var(--ink);
       font-variant-numeric: tabular-nums; }
h1 { font-size: 21px; line-height: 1.3; font-weight: 600; margin: 2px 0 6px; }
h2 { font-size: 15px; font-weight: 600; margin: 36px 0 10px; padding-top: 8px; border-top: 1px solid var(--line); }
h3 { font-size: 13px; font-weight: 600; margin: 0 0 2px; }
h3 .muted { font-weight: 400; }
p { margin: 6px 0; max-width: 140ch; }
a { color: inherit; text-decoration-color: var(--line); text-underline-offset: 2px; }
a:hover { text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--pass); outline-offset: 1px; }
code, .mono { font: 12px/1.5 ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
              overflow-wrap: anywhere; }
.muted { color: var(--muted); }
.small { font-size: 12px; }
.pass { color: var(--pass); }
.fail, .crashed, .timeout { color: var(--fail); }
.mistrusted, .implausible { color: var(--doubt); }
.unsupported, .skipped { color: var(--muted); }
.brand { font-size: 12px; font-weight: 600; letter-spacing: .04em; color: var(--muted); }
nav { margin-top: 10px; font-size: 13px; }
nav a { margin-right: 16px; color: var(--muted); }

table { border-collapse: collapse; width: 100%; }
th, td { padding: 4px 12px 4px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-size: 12px; font-weight: 600; color: var(--muted); white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; }

.bar { display: inline-block; width: 72px; height: 6px; margin-right: 8px; vertical-align: 1px;
       background: var(--panel); border: 1px solid var(--line); }
.bar i { display: block; height: 100%; background: var(--pass); }
.bar.over i { background: repeating-linear-gradient(135deg, var(--fail) 0 3px, transparent 3px 5px); }
.matrix td { padding: 7px 18px 7px 0; white-space: nowrap; }
.matrix .verdicts { font-weight: 600; }

.failure { margin: 0 0 14px; padding: 2px 0 2px 12px; border-left: 3px solid var(--fail); }
.failure.mistrusted { border-color: var(--doubt); }
.failure.mistrusted, .failure.fail, .failure.crashed, .failure.timeout { color: var(--ink); }
.failure p { margin: 2px 0; max-width: none; }

.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(376px, 1fr)); gap: 26px 32px; }
.cards.narrow { grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 20px 24px; }
.card { min-width: 0; break-inside: avoid; }
.card h3 { overflow-wrap: anywhere; }
.card table { margin: 4px 0 6px; font-size: 13px; }
.card td, .card th { padding: 1px 10px 1px 0; border: 0; white-space: nowrap; }
.card td:last-child { padding-right: 0; }
.card td.implausible { white-space: normal; }
.key { display: inline-block; width: 18px; height: 0; margin-right: 6px; vertical-align: 4px; border-top: 2px solid var(--cold); }
.key.warm { border-top: 2px dashed var(--warm); }
svg { display: block; width: 100%; height: auto; }
svg text { font: 10px system-ui, sans-serif; fill: var(--muted); }
svg .axis { stroke: var(--line); fill: none; }
svg .floor { stroke: var(--ink); stroke-dasharray: 2 2; fill: none; }
svg .cold { stroke: var(--cold); fill: none; }
svg .warm { stroke: var(--warm); fill: none; }
svg .ecdf { stroke-width: 1.6; }
svg .ecdf.warm { stroke-dasharray: 5 2.5; }
svg .strip { stroke-width: 1; opacity: .65; }
svg .within { fill: var(--pass); }
svg .beyond { fill: var(--fail); }

.tools { display: flex; gap: 12px; align-items: baseline; margin-bottom: 8px; }
input[type=search] { flex: 0 1 440px; font: inherit; padding: 5px 8px; color: inherit; background: var(--page);
                     border: 1px solid var(--line); border-radius: 3px; }
button { font: inherit; font-size: 12px; color: var(--muted); background: none; border: 1px solid var(--line);
         border-radius: 3px; padding: 0 6px; margin-left: 8px; cursor: pointer; }
button:hover { color: var(--ink); }
#cases thead th { position: sticky; top: 0; background: var(--page); z-index: 1; }
#cases th button { border: 0; padding: 0; margin: 0; font-weight: 600; }
#cases > tbody > tr > td { padding-top: 2px; padding-bottom: 2px; }
#cases > * > tr > :nth-child(n+3) { text-align: right; white-space: nowrap; }
#cases > tbody > tr > td:first-child { white-space: nowrap; }
#cases > tbody > tr > td:nth-child(2) { font: 11.5px/1.6 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
                                        overflow-wrap: anywhere; color: var(--ink); }
#cases > tbody > tr.pass > :nth-child(n+3) { color: var(--ink); }
#cases tr:target, #cases tr.open { background: var(--panel); }
#cases > tbody > tr.details > td { padding: 8px 12px 12px 24px; white-space: normal; background: var(--panel); }
.details table { width: auto; margin: 6px 0; font-size: 12px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0; max-width: 100ch; }
dt { font-weight: 600; }
dd { margin: 0; }

@media (max-width: 700px) {
  body { padding: 16px 12px 40px; }
  .cards { grid-template-columns: 1fr; }
  dl { grid-template-columns: 1fr; }
}
@media print {
  :root { --page: #fff; --ink: #000; --muted: #444; --line: #bbb; --panel: #fff; --pass: #0b5fa5; --fail: #b5400c;
          --doubt: #7f5a00; --cold: #0b5fa5; --warm: #c4520f; }
  body { max-width: none; padding: 0; font-size: 11px; }
  nav, .tools, button { display: none; }
  #cases thead th { position: static; }
  tr, .failure { break-inside: avoid; }
}
)css";

}  // namespace assay
