"""The style of the page."""

STYLE = """
:root { --ink: #1d2530; --faint: #667085; --line: #e2e6ec; --back: #ffffff; --panel: #f7f8fa;
  --good: #157347; --bad: #b42318; --blue: #1f5fbf; --orange: #b25e09; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --faint: #98a2b3; --line: #343b46; --back: #14181e;
  --panel: #1c222a; --good: #4cc38a; --bad: #ff8a80; --blue: #7fb0ff; --orange: #f0a860; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 1080px;
  margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 10px; }
p.summary { font-size: 17px; } .faint, caption, dt { color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 12px 0; } dd { margin: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 6px 10px; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; } td.number { font-variant-numeric: tabular-nums; }
th.number, td.number { text-align: right; }
td.number, td.name { white-space: nowrap; }
td.text { overflow-wrap: anywhere; min-width: 140px; }
.cards { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 18px 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 24px; } .gained { color: var(--good); } .lost { color: var(--bad); }
svg.curve { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--faint); }
.grid { stroke: var(--line); } .score-line { fill: none; stroke: var(--blue); stroke-width: 2.5; }
.band { fill: var(--blue); opacity: .13; } .kept { fill: var(--blue); }
.taken-back { stroke: var(--bad); stroke-width: 2.5; }
.skills-line { fill: none; stroke: var(--orange); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .skills-text { fill: var(--orange); }
.key i { display: inline-block; width: 22px; height: 3px; margin: 0 6px 4px 14px; background: var(--blue); }
.key i.skills { background: var(--orange); } .key i:first-child { margin-left: 0; }
td.held { padding: 6px 2px; } td.held span { display: block; height: 12px; min-width: 12px; border-radius: 2px; }
td.held span.yes { background: var(--orange); } td.held span.refused { background: var(--bad); }
details > summary { cursor: pointer; color: var(--faint); margin: 10px 0; }
@media (max-width: 700px) { body { padding: 20px 12px 40px; } .cards { grid-template-columns: repeat(2, 1fr); }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } table { font-size: 13px; } svg text { font-size: 18px; }
  th, td { padding: 5px 6px; } td.text { min-width: 110px; }
  td.name { white-space: normal; overflow-wrap: anywhere; min-width: 84px; } td.held { padding: 6px 1px; } }
"""
