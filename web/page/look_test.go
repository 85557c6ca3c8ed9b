package page_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// views are the page's, each with what says that it is drawn.
func views(t *testing.T) (base string, list []struct{ name, address, ready string }) {
	base, special := shopServer(t)
	return base, []struct{ name, address, ready string }{
		{"traces", "#/traces", "document.querySelectorAll('.trace-item').length === 50 && document.querySelector('.scatter circle')"},
		{"trace", "#/trace/" + special["checkout"].String(), "document.querySelectorAll('.row:not([hidden])').length > 10"},
		{"incomplete", "#/trace/" + special["broken"].String(), "document.querySelectorAll('.row:not([hidden])').length > 10"},
		{"part", "#/trace/" + special["part"].String(), "document.querySelectorAll('.row:not([hidden])').length > 5"},
		{"compare", "#/compare?a=" + special["checkout"].String() + "&b=" + special["broken"].String(), "document.querySelectorAll('.pane .row').length > 20 && document.querySelector('table')"},
		{"diagnose", "#/diagnose", "document.querySelectorAll('.diagnosis').length > 1"},
		{"map", "#/map", "document.querySelector('.map-chart .node') && document.querySelectorAll('.sortable').length === 2"},
		{"health", "#/health", "document.querySelectorAll('.source').length === 4"},
		{"nothing", "#/traces?service=payment&operation=refund", "document.querySelector('.message')"},
	}
}

// Every view at several widths, light and dark: nothing scrolls sideways, text
// has contrast, and there is a picture to look at.
func TestLooks(t *testing.T) {
	base, list := views(t)
	for _, size := range sizes {
		p := open(t, base, "#/traces", size.width, size.height)
		for _, theme := range []string{"light", "dark"} {
			p.media(scheme(theme), &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
			for _, view := range list {
				name := fmt.Sprintf("%s-%s-%s", view.name, size.name, theme)
				p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/"+view.address))
				p.wait(name+" is drawn", view.ready)
				p.look(name, size.width)
				if view.name == "trace" {
					p.key("\r")
					p.wait("details are shown", "document.querySelector('.details:not([hidden]) .attributes')")
					p.screenshot(name + "-details")
					p.key("\x1b?")
					p.wait("help is shown", "document.querySelector('dialog.help')?.open")
					p.screenshot(name + "-help")
					p.key("\x1b++/")
					eval[bool](p, "(document.activeElement.value = '', true)")
					p.key("catalog")
					p.wait("matches are marked", "document.querySelector('.row.match')")
					p.screenshot(name + "-find")
				}
			}
		}
	}
}

// sizes are those of the windows in which views are looked at.
var sizes = []struct {
	name          string
	width, height int64
}{{"wide", 1440, 900}, {"phone", 360, 740}}

// look checks what is shown, and makes a picture of it.
func (p *tab) look(name string, width int64) {
	p.Helper()
	if got := eval[int64](p, "document.scrollingElement.scrollWidth"); got > width {
		p.Errorf("%s scrolls sideways: %d px wide: %s", name, got, eval[string](p, `[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(e => e.tagName + '.' + (e.className.baseVal ?? e.className)).join(' ')`))
	}
	if got := eval[string](p, lowContrast); got != "" {
		p.Errorf("%s: low contrast: %s", name, got)
	}
	p.screenshot(name)
}

// lowContrast lists texts whose contrast (WCAG 2.2, 1.4.3) to the colour below
// them is under 4.5. Colours are resolved on a canvas, whatever CSS calls them.
const lowContrast = `(() => {
	const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
	const rgba = (color) => { c.clearRect(0, 0, 1, 1); c.fillStyle = color; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
	const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
	const over = (top, below) => { const a = top[3] / 255; return [0, 1, 2].map((k) => top[k] * a + below[k] * (1 - a)).concat(255); };
	const ground = (e) => {
		const layers = [];
		for (; e; e = e.parentElement) { const g = rgba(getComputedStyle(e).backgroundColor); if (g[3]) layers.push(g); if (g[3] === 255) break; }
		return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 255]);
	};
	const bad = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || !e.checkVisibility({visibilityProperty: true}) || e.closest('svg, .offscreen, .skip, option')) continue;
		const below = ground(e), text = over(rgba(getComputedStyle(e).color), below);
		const [a, b] = [light(text), light(below)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) bad.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2) + ' "' + walk.currentNode.textContent.slice(0, 20) + '"');
	}
	return [...bad].slice(0, 8).join('; ');
})()`

// The reader's choice of light or dark wins over the system's, and is
// remembered.
func TestThemeIsRemembered(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "", 1000, 700)
	p.media(scheme("light"))
	ground := "getComputedStyle(document.documentElement).backgroundColor"
	p.wait("the page is there", "document.querySelector('.trace-item')")
	light := eval[string](p, ground)
	p.media(scheme("dark"))
	dark := eval[string](p, ground)
	if light == dark {
		t.Fatalf("light and dark are both %s", light)
	}
	p.click("#theme")
	if got := eval[string](p, ground); got != light {
		t.Errorf("after the switch it is %s, want %s", got, light)
	}
	p.do(chromedp.Reload())
	p.wait("the page is there again", "document.querySelector('.trace-item')")
	if got := eval[string](p, ground); got != light {
		t.Errorf("after a reload it is %s, want %s", got, light)
	}
	if got := p.text("#theme"); got != "Dark" {
		t.Errorf("the switch offers %q", got)
	}
}

// Interactive elements have a name, and the focus visits them in order.
func TestAccessible(t *testing.T) {
	base, list := views(t)
	p := open(t, base, "", 1280, 900)
	for _, view := range list {
		p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/"+view.address))
		p.wait(view.name+" is drawn", view.ready)
		nameless := eval[string](p, `[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"], [role=treeitem]')]
			.filter((e) => e.checkVisibility() && e.getAttribute('aria-hidden') !== 'true')
			.filter((e) => !(e.getAttribute('aria-label') || e.closest('label') || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 80)).join('\n')`)
		if nameless != "" {
			t.Errorf("%s: without a name:\n%s", view.name, nameless)
		}
		if got := p.count("h1"); got != 1 && view.name != "nothing" {
			t.Errorf("%s: %d headings of the first level", view.name, got)
		}
		if got := eval[string](p, `[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, k, all) => all.indexOf(id) !== k).join()`); got != "" {
			t.Errorf("%s: ids twice: %s", view.name, got)
		}
		eval[bool](p, "(document.querySelector('.brand').focus(), true)")
		p.key("\t")
		if !eval[bool](p, "document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Errorf("%s: the focus is not visible on %s", view.name, eval[string](p, "document.activeElement.outerHTML.slice(0, 80)"))
		}
	}
}
