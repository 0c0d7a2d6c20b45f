"""What a report's page has of CSS and JavaScript of its own: light and dark, print, zoom in step. No project in it."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{--page:#ffffff;--ink:#1b2129;--soft:#55606c;--line:#d5dae0;--pane:#f4f6f8;
--good:#1d7a49;--bad:#b3261e;--open:#8a5a00;color-scheme:light}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--page:#14181d;--ink:#e8ecf0;--soft:#aab4bf;
--line:#39424c;--pane:#1d232a;--good:#6fd19c;--bad:#ff8a80;--open:#f0bb55;color-scheme:dark}}
:root[data-theme=dark]{--page:#14181d;--ink:#e8ecf0;--soft:#aab4bf;--line:#39424c;--pane:#1d232a;--good:#6fd19c;
--bad:#ff8a80;--open:#f0bb55;color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,'DejaVu Sans','Segoe UI',sans-serif}
main{padding:20px 24px 48px;display:grid;gap:24px;grid-template-columns:minmax(0,1fr)}
main.runs-2{grid-template-columns:minmax(0,calc(50% - 12px - var(--legend)/2)) minmax(0,1fr)}
main.runs-2>.differences{grid-column:1/-1}main.runs-2 h1{margin-right:0;font-size:18px}
main.runs-2 .findings td{padding-right:6px}main.runs-2>article:first-of-type{min-width:0}
#theme{position:absolute;top:20px;right:24px;font:inherit;font-size:13px;color:var(--ink);background:var(--pane);
border:1px solid var(--line);border-radius:6px;padding:3px 10px;cursor:pointer}
h1{font-size:21px;line-height:1.3;margin:0 130px 6px 0}
h2{font-size:16px;margin:26px 0 8px}
.verdict{margin:0 0 4px;padding:8px 12px;border-left:5px solid var(--open);background:var(--pane);font-size:16px}
.verdict.good{border-color:var(--good)}.verdict.bad{border-color:var(--bad)}
.small{font-size:13px;color:var(--soft);margin:4px 0 10px;overflow-wrap:anywhere}
.picture{min-height:200px}
.picture .xtick text,.picture .x2tick text,.picture .ytick text,.picture .y2tick text,.picture .y3tick text,
.picture .legend text,.picture .annotation text,.picture .xtitle{fill:var(--ink)!important}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:6px 12px 6px 0;border-top:1px solid var(--line);font-size:14px}
th{font-weight:600;white-space:nowrap}
td ul{margin:4px 0 0;padding-left:18px;overflow-wrap:anywhere}
.mark{white-space:nowrap;font-weight:600}
.mark.good{color:var(--good)}.mark.bad{color:var(--bad)}.mark.open,.mark.expected{color:var(--open)}
.mark.good::before{content:"\\2713  "}.mark.bad::before,.mark.expected::before{content:"\\2717  "}
.mark.open::before{content:"?  "}
pre{overflow-x:auto;background:var(--pane);border:1px solid var(--line);border-radius:6px;padding:12px;
font:12px/1.45 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:2px 24px;margin:0;font-size:13px}
dl div{display:flex;gap:8px;min-width:0}dt{color:var(--soft);white-space:nowrap}dd{margin:0;overflow-wrap:anywhere}
@media print{
:root,:root[data-theme=dark]{--page:#fff!important;--ink:#000!important;--soft:#333!important;--line:#999!important;
--pane:#fff!important;--good:#000!important;--bad:#000!important;--open:#000!important}
@page{size:A4 landscape;margin:10mm}
#theme,.modebar-container{display:none!important}
main{padding:0}h1{margin-right:0}pre{white-space:pre-wrap;font-size:8px}
tr,header{break-inside:avoid}.picture{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""

SCRIPT: Final = """
(async function () {
  const packed = atob(document.getElementById('figures').textContent);
  const bytes = Uint8Array.from(packed, letter => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const figures = await new Response(plain).json();
  const pictures = figures.map((_, number) => document.getElementById('picture-' + number));
  const options = {responsive: true, displaylogo: false, displayModeBar: true,
                   modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d']};
  Promise.all(figures.map((figure, number) =>
    Plotly.newPlot(pictures[number], figure.data, figure.layout, options))).then(() => {
    // Runs beside each other zoom in step, each by the seconds since its own first fault.
    let following = false;
    pictures.forEach((picture, number) => picture.on('plotly_relayout', () => {
      if (following) return;
      following = true;
      const shift = figures[number].layout.meta.origin;
      const range = picture.layout.xaxis.range.map(one => one - shift);
      const follow = (other, which) => other === picture ? null
        : Plotly.relayout(other, {'xaxis.range': range.map(one => one + figures[which].layout.meta.origin)});
      Promise.all(pictures.map(follow)).then(() => { following = false; });
    }));
    document.documentElement.dataset.drawn = 'yes';
  });
  const root = document.documentElement;
  document.getElementById('theme').addEventListener('click', () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });
  const resize = width => pictures.forEach(picture =>
    picture.data && Plotly.relayout(picture, width ? {width: width / pictures.length} : {autosize: true, width: null}));
  addEventListener('beforeprint', () => resize(1040));
  addEventListener('afterprint', () => resize(null));
})();
"""
