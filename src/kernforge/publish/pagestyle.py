"""The style sheet of the start page. Pure text.

Colours are tokens, set once for light and once for dark; contrast of text is 4.5 to 1 or more.
"""

from __future__ import annotations

STYLE = """\
:root {
  --paper: #fbfbf9; --card: #ffffff; --ink: #1c2126; --soft: #58626c; --line: #dfe2e1;
  --accent: #0b6b57; --good: #0b6b57; --good-ink: #ffffff; --bad: #b3261e; --bad-ink: #ffffff;
  --idle: #eceeec; --code: #f3f5f3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181b; --card: #1b2024; --ink: #e7eaec; --soft: #a3adb5; --line: #2e363c;
    --accent: #66d1b5; --good: #4cc2a4; --good-ink: #06231c; --bad: #f28b82; --bad-ink: #2b0906;
    --idle: #262d32; --code: #13171a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 60rem; padding: 2rem 1rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
header p { max-width: 44rem; color: var(--soft); margin: 0 0 1rem; }
header code { display: inline-block; }
code, pre { font-family: ui-monospace, "SFMono-Regular", Menlo, "Liberation Mono", monospace; }
code { font-size: .88em; overflow-wrap: anywhere; }
a { color: var(--accent); }
a:focus-visible, pre:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
nav { display: flex; flex-wrap: wrap; gap: .5rem; }
nav a {
  padding: .3rem .8rem; border: 1px solid var(--line); border-radius: 2rem;
  background: var(--card); text-decoration: none; font-variant-numeric: tabular-nums;
}
section { margin-top: 2.5rem; }
h2 { font-size: 1.1rem; font-weight: 400; margin: 0 0 .75rem; display: flex; flex-wrap: wrap;
  align-items: baseline; gap: .25rem .75rem; }
h2 b { font-size: 1.6rem; font-variant-numeric: tabular-nums; }
.examples { color: var(--soft); }
article {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1rem 1.15rem; margin-top: .9rem; min-width: 0;
}
h3 { margin: 0; font-size: 1.1rem; }
h3 small { font-weight: 400; font-size: .85em; color: var(--soft); }
.summary { margin: .2rem 0 0; color: var(--soft); }
.facts { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem; padding: 0;
  margin: .7rem 0; }
.facts li { background: var(--idle); border-radius: .35rem; padding: .1rem .55rem;
  font-size: .88rem; }
.level { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .7rem 0; }
.level p { margin: 0; }
.ladder { list-style: none; display: flex; flex-wrap: wrap; gap: 2px; padding: 0; margin: 0; }
.ladder li { background: var(--idle); color: var(--soft); font-size: .82rem;
  padding: .15rem .6rem; }
.ladder li:first-child { border-radius: .35rem 0 0 .35rem; }
.ladder li:last-child { border-radius: 0 .35rem .35rem 0; }
.ladder .reached { background: var(--good); color: var(--good-ink); font-weight: 600; }
.ladder .failed { background: var(--bad); color: var(--bad-ink); font-weight: 600; }
.ladder .failed::before { content: "\\2715\\a0"; }
.ladder.expected .reached { background: none; color: var(--accent);
  box-shadow: inset 0 0 0 1px var(--accent); }
.ladder span { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
pre { background: var(--code); border: 1px solid var(--line); border-radius: .4rem;
  padding: .7rem .8rem; margin: .7rem 0; overflow-x: auto; font-size: .85rem; }
.links, .hash { margin: .3rem 0 0; font-size: .88rem; color: var(--soft); }
.legend dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem;
  margin: 0; }
.legend dt { font-weight: 600; }
.legend dd { margin: 0; color: var(--soft); }
.gone { margin-top: 2rem; color: var(--soft); }
.none { margin-top: 2rem; }
@media (max-width: 34rem) {
  body { padding: 1.25rem .8rem 3rem; }
  h1 { font-size: 1.5rem; }
  article { padding: .85rem .9rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .ladder { width: 100%; }
  .ladder li { flex: 1; text-align: center; padding: .2rem .2rem; }
}
"""
