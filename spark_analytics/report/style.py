"""How the page looks: by day, by night, on a phone and on paper."""

CSS = (
    """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b2330; --soft: #5b6676; --line: #e3e7ec;
  --empty: #edf0f3; --c1: #2b6cb0; --c2: #c05621; --c3: #2f855a; --c4: #6b46c1; --c5: #b83280; --c6: #4a5568;
  --good: #2f9e6e; --warn: #d69e2e; --bad: #d64545; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #1a2029; --ink: #e6eaf0; --soft: #98a3b3;
  --line: #2b333f; --empty: #252d38; --c1: #63a4f0; --c2: #f0955a; --c3: #56c596; --c4: #a58bf0; --c5: #ec7fb6;
  --c6: #a0aec0; --good: #46c08b; --warn: #e8b94a; --bad: #f07070; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 40px; }
header { margin: 0 0 20px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 17px; line-height: 1.35; margin: 0 0 2px; }
p { margin: 0; }
.soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; margin: 0 0 16px;
  break-inside: avoid; }
section > p.soft { margin: 0 0 12px; font-size: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 0 0 16px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 24px; line-height: 1.25; font-variant-numeric: tabular-nums; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13px; }
.plot { display: block; width: 100%; height: auto; font-size: 11px; font-family: inherit; }
.plot + .plot, h3 + .plot { margin-top: 4px; }
h3 { font-size: 14px; margin: 12px 0 0; font-weight: 600; overflow-wrap: anywhere; }
.narrow { display: none; }
.grid { stroke: var(--line); stroke-width: 1; }
.tick { fill: var(--soft); font-variant-numeric: tabular-nums; }
.name { fill: var(--ink); font-size: 12px; }
.value { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.empty { fill: var(--empty); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.band { opacity: 0.22; }
"""
    + "".join(
        f".{name} {{ fill: var(--{name}); color: var(--{name}); }} .{name}.line {{ fill: none; stroke: var(--{name}); }}\n"
        for name in ("c1", "c2", "c3", "c4", "c5", "c6", "good", "warn", "bad")
    )
    + """
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 6px; padding: 0; list-style: none; font-size: 13px; }
.legend li { overflow-wrap: anywhere; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; background: currentColor; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.w { overflow-wrap: anywhere; min-width: 150px; }
td.t { white-space: nowrap; font-variant-numeric: tabular-nums; }
footer { color: var(--soft); font-size: 13px; }
footer ul { margin: 4px 0 12px; padding-left: 18px; }
code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 16px 12px 32px; } section { padding: 14px 12px; } h1 { font-size: 22px; }
  .wide { display: none; } .narrow { display: block; }
  thead { display: none; } tr { display: block; padding: 8px 0; border-bottom: 1px solid var(--line); }
  td, td.n, td.w { display: flex; gap: 12px; justify-content: space-between; border: 0; padding: 1px 0; text-align: right;
    white-space: normal; }
  td:empty { display: none; }
  td::before { content: attr(data-name); color: var(--soft); text-align: left; white-space: nowrap; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tile { padding: 10px 12px; } .tile b { font-size: 20px; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --empty: #eee;
    --c1: #2b6cb0; --c2: #c05621; --c3: #2f855a; --c4: #6b46c1; --c5: #b83280; --c6: #4a5568;
    --good: #2f9e6e; --warn: #d69e2e; --bad: #d64545; }
  body { font-size: 11pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; } section, .tile { border-color: #bbb; }
  .wide { display: block; } .narrow { display: none; } .scroll { overflow: visible; }
}
"""
)
