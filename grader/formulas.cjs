// Draws formulas: pages of [tex, display] from stdin, their HTML and styles as JSON to stdout.
// The one argument is the folder of MathJax. A formula that is not TeX ends it with status 1.
const folder = process.argv[2];
const mathjax = require(folder + "/node-main.js");

async function draw(MathJax, formulas) {
  const adaptor = MathJax.startup.adaptor;
  const html = [];
  MathJax.startup.output.clearCache(); // the styles of a page name the letters of that page alone
  for (const [tex, display] of formulas) {
    const node = await MathJax.tex2chtmlPromise(tex, { display }).catch((problem) => {
      throw new Error(`${problem.message}: ${tex}`);
    });
    html.push(adaptor.outerHTML(node));
  }
  return { html, css: adaptor.textContent(MathJax.chtmlStylesheet()) };
}

async function main() {
  console.log = console.error; // MathJax's remarks stay out of the answer
  const MathJax = await mathjax.init({
    loader: {
      paths: { mathjax: folder },
      load: ["adaptors/liteDOM", "input/tex", "output/chtml", "a11y/assistive-mml"],
      require,
    },
    options: { enableAssistiveMml: true },
    tex: {
      packages: { "[-]": ["noundefined", "noerrors"] },
      formatError: (jax, problem) => {
        throw problem;
      },
    },
    chtml: { fontURL: "FONTS", displayAlign: "center" },
    startup: { typeset: false },
  });
  const pages = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  const drawn = [];
  for (const formulas of pages) drawn.push(await draw(MathJax, formulas));
  process.stdout.write(JSON.stringify(drawn));
}

main().catch((problem) => {
  console.error(problem.message);
  process.exit(1);
});
