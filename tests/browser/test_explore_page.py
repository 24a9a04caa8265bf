"""The page of `ellipslice explore` in a browser."""

from __future__ import annotations

import re

import pytest

from ellipslice.apps.explore import page

pytestmark = [pytest.mark.browser, pytest.mark.long]

STEPS = {1: "ν is a draw", 2: "the slice level", 3: "a first angle", 4: "has log L"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "explore.html"
    path.write_text(page(), encoding="utf8")
    return path.as_uri()


@pytest.fixture
def visit(browser, address):
    """Return a function that opens the page. At the end there must be no errors and no network requests."""
    tabs, trouble = [], []

    def visit(query="", width=1280, height=800, **options):
        tab = browser.new_page(viewport={"width": width, "height": height}, **options)
        tabs.append(tab)
        tab.on("console", lambda message: trouble.append(message.text))
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or trouble.append(request.url))
        tab.goto(f"{address}?{query}")
        tab.wait_for_function("drawnAt > 0")
        return tab

    yield visit
    for tab in tabs:
        tab.close()
    assert trouble == []


def sentence(tab):
    """Return the sentence of the page, after it has been drawn."""
    tab.wait_for_function("!stale")
    return tab.inner_text("#sentence")


def table(tab, method):
    tab.wait_for_function("!stale && !resultsStale")
    return tab.locator(f"tr[data-method={method}] td").all_inner_texts()


def drawn(tab, selector):
    """Return the number of non-empty pixels of a canvas."""
    return tab.evaluate(
        """(selector) => {
          const { width, height } = document.querySelector(selector);
          const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(document.querySelector(selector), 0, 0);
          const { data } = copy.getImageData(0, 0, width, height);
          let count = 0;
          for (let k = 3; k < data.length; k += 4) count += data[k] > 0;
          return count;
        }""",
        selector,
    )


def test_one_update_line_by_line(visit):
    tab = visit("seed=1")
    assert "Press Step" in sentence(tab)
    for step, words in STEPS.items():
        tab.click("#step")
        assert f"Step {step}" in sentence(tab)
        assert words in sentence(tab)
        marked = tab.locator("#figure2 li[aria-current]").all_inner_texts()
        assert len(marked) in (1, 2)
        assert marked[0] == tab.locator("#figure2 li").nth(step - 1).inner_text()
    tab.click("#finish")
    assert "accepted" in sentence(tab)
    assert table(tab, "elliptical")[0] == "1"


def test_the_way_back(visit):
    tab = visit("seed=1&updates=3")
    state = tab.evaluate("run.chains[0].state.f")
    shown = tab.evaluate("JSON.stringify(run.chains[0].events)")
    tab.click("#back")
    assert "The reverse move" in sentence(tab)
    home, end = tab.evaluate("[run.chains[0].forward.origin.f, run.chains[0].event.state.f]")
    assert end == pytest.approx(home)
    tab.keyboard.press("b")
    assert tab.evaluate("JSON.stringify(run.chains[0].events)") == shown
    tab.keyboard.press("b")
    tab.click("#step")  # continues from the state of the chain
    assert tab.evaluate("run.chains[0].origin.f") == state
    tab.wait_for_function("!stale")  # buttons change at the next redraw
    assert tab.is_disabled("#back")


def test_every_likelihood_is_drawn(visit):
    tab = visit("rivals=1", width=800, height=600)
    for likelihood in tab.evaluate("Object.keys(LIKELIHOODS)"):
        tab.locator("select[name=likelihood]").select_option(likelihood)
        tab.evaluate("for (let k = 0; k < 30; k++) advance('finish')")
        tab.evaluate("for (let k = 0; k < 4; k++) advance('step')")
        tab.wait_for_function("!stale && !resultsStale")
        for canvas in (".plane", ".unrolled", "#histogram", "#autocorrelation", "#trace"):
            assert drawn(tab, canvas) > 300, (likelihood, canvas)
        assert tab.locator(".plane").count() == 3


def test_the_address_says_it_all(visit):
    tab = visit("seed=7&updates=200&rivals=1&likelihood=ring&prior=long&bracket=0.5&follow=logL&epsilon=0.3&theme=dark")
    assert table(tab, "elliptical")[0] == table(tab, "neal")[0] == table(tab, "line")[0] == "200"
    assert tab.evaluate("run.problem.prior.sd") == [1.2, 0.3]
    assert tab.evaluate("run.problem.bracket.width / Math.PI") == pytest.approx(0.5)
    first = tab.evaluate("run.chains.map((chain) => chain.trace)")
    tab.locator("select[name=follow]").select_option("f2")
    again = visit(f"{tab.evaluate('location.hash.slice(1)')}&updates=200")
    assert again.evaluate("run.chains.map((chain) => chain.trace)") == first
    assert again.locator("select[name=follow]").input_value() == "f2"


def test_nonsense_in_the_address_is_passed_over(visit):
    tab = visit("seed=-3&updates=many&likelihood=none&prior=none&bracket=wide&speed=99&steps=&theme=pink&colour=1")
    assert "Press Step" in sentence(tab)
    assert tab.evaluate("run.problem.bracket.width") == pytest.approx(6.2832, abs=1e-4)
    assert int(tab.input_value("input[name=seed]")) == tab.evaluate("run.problem.seed") == 1


def test_keys(visit):
    tab = visit("seed=2")
    tab.keyboard.press("s")
    assert "Step 1" in sentence(tab)
    tab.keyboard.press("ArrowRight")
    assert "Step 2" in sentence(tab)
    tab.keyboard.press("p")
    assert re.search("Step [68]", sentence(tab))
    tab.keyboard.press("u")
    assert "accepted" in sentence(tab)
    tab.keyboard.press("v")
    tab.wait_for_function("run.chains.length === 3 && !stale")
    tab.keyboard.press("n")
    assert tab.input_value("input[name=seed]") == "3"
    tab.evaluate("changeSpeed(9)")
    tab.keyboard.press("-")
    assert "500 updates" in tab.inner_text("#speed-words")
    tab.keyboard.press("Space")
    tab.wait_for_function("run.update > 50")
    tab.keyboard.press("Space")
    assert tab.inner_text("#play") == "Play"
    tab.keyboard.press("r")
    assert tab.evaluate("run.update") == 0
    tab.keyboard.press("d")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"


def test_everything_is_reached_by_tab_and_seen_there(visit):
    tab = visit("rivals=1")
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        name, outline = tab.evaluate(
            "[document.activeElement.id || document.activeElement.name || document.activeElement.className, "
            "getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.add(name)
        assert (
            outline in ("solid", "auto") or name == "rivals-on"
        )  # the page itself has the focus after its last control
    assert {"plane", "play", "step", "proposal", "finish", "reset", "speed", "likelihood", "prior"} <= reached
    assert {"bracket", "shrinking", "rivals", "epsilon", "width", "seed", "another", "follow", "theme"} <= reached


def test_every_control_has_a_name(visit):
    tab = visit("rivals=1")
    nameless = tab.evaluate(
        """[...document.querySelectorAll("button, input, select, canvas")]
             .filter((one) => !(one.labels?.length || one.textContent.trim() || one.getAttribute("aria-label")))
             .map((one) => one.outerHTML)"""
    )
    assert nameless == []


def test_the_state_and_nu_can_be_dragged(visit):
    tab = visit("seed=4&steps=4")
    for mark, where in (("origin", "chain.origin.f"), ("nu", "chain.noise.nu")):
        x, y = tab.evaluate(
            f"""(() => {{
              const [picture] = pictures, {{ chain }} = picture, box = picture.canvas.getBoundingClientRect();
              const [x, y] = picture.view.pixel({where});
              return [box.left + x, box.top + y];
            }})()"""
        )
        other = tab.evaluate("JSON.stringify([run.chains[0].noise.level, run.chains[0].noise.uniform(5)])")
        before = tab.evaluate(f"(({{ chain }}) => {where})(pictures[0])")
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x + 20, y - 30, steps=4)
        tab.mouse.up()
        after = tab.evaluate(f"(({{ chain }}) => {where})(pictures[0])")
        scale = tab.evaluate("pictures[0].view.scale")
        assert after == pytest.approx([before[0] + 20 / scale, before[1] + 30 / scale], abs=1 / scale), mark
        assert tab.evaluate("JSON.stringify([run.chains[0].noise.level, run.chains[0].noise.uniform(5)])") == other


def test_a_finger_drags_the_state_and_scrolls_elsewhere(visit):
    tab = visit("seed=4", width=360, height=740, has_touch=True)
    fingers = tab.context.new_cdp_session(tab)

    def drag(x, y, dx, dy):
        for name, part in (("touchStart", 0), ("touchMove", 0.3), ("touchMove", 0.7), ("touchMove", 1)):
            points = [{"x": x + part * dx, "y": y + part * dy}]
            fingers.send("Input.dispatchTouchEvent", {"type": name, "touchPoints": points})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    before, (x, y), scale = tab.evaluate(
        """(() => {
          const [{ canvas, view, chain }] = pictures, box = canvas.getBoundingClientRect();
          const [x, y] = view.pixel(chain.state.f);
          return [chain.state.f, [box.left + x, box.top + y], view.scale];
        })()"""
    )
    drag(x + 12, y - 8, -40, -50)  # slightly off the mark, as a finger is
    after = tab.evaluate("run.chains[0].state.f")
    assert after == pytest.approx([before[0] - 28 / scale, before[1] + 58 / scale], abs=2 / scale)
    assert tab.evaluate("scrollY") == 0
    drag(30, 300, 0, -150)
    tab.wait_for_function("scrollY > 50")
    assert tab.evaluate("run.chains[0].state.f") == after


def test_arrows_move_the_state(visit):
    tab = visit("seed=4")
    before = tab.evaluate("run.chains[0].state.f")
    tab.focus(".plane")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Shift+ArrowLeft")
    assert tab.evaluate("run.chains[0].state.f") == pytest.approx([before[0] - 0.25, before[1] + 0.05])


@pytest.mark.parametrize("width", [360, 768, 1024, 1600])
@pytest.mark.parametrize("rivals", [0, 1])
def test_fits_its_screen(visit, width, rivals):
    tab = visit(f"rivals={rivals}&updates=30&steps=5&prior=correlated", width=width, height=800)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for box in tab.locator("button:visible, select:visible, canvas:visible").all():
        place = box.bounding_box()
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= width
    if width == 360:  # large enough for a finger
        assert all(box.bounding_box()["height"] >= 32 for box in tab.locator("#transport button").all())


def test_dark_where_the_system_is(visit):
    dark, light = visit(color_scheme="dark"), visit(color_scheme="light")
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
    assert light.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"


def test_little_motion_for_those_who_want_little(visit):
    tab = visit("speed=6", reduced_motion="reduce")
    pictures = """async () => {
      let count = 0;
      const before = draw;
      draw = (now) => { count++; before(now); };
      play(true);
      await new Promise((done) => setTimeout(done, 1500));
      play(false);
      return count;
    }"""
    assert 2 <= tab.evaluate(pictures) <= 7
    assert tab.evaluate("run.update") > 5


def test_a_long_run_ends_and_finds_the_posterior(visit):
    tab = visit("seed=8&updates=20000&follow=f1")
    _, _, moved, mean, size, *_ = table(tab, "elliptical")
    assert moved == "100 %"
    error = 0.45 / float(size.replace(",", "")) ** 0.5
    assert float(mean.replace("−", "-")) == pytest.approx(0.88, abs=5 * error)
    full = visit("seed=8&updates=1000000&likelihood=flat")
    assert "The run ends after" in sentence(full)
    full.click("#step")
    assert full.evaluate("run.update") == 100_000
