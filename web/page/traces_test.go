package page_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestSearch(t *testing.T) {
	base, special := shopServer(t)
	p := open(t, base, "", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50")
	if got := eval[string](p, "location.hash"); got != "#/traces" {
		t.Errorf("the address is %s", got)
	}
	if got, want := p.count(".scatter a.point"), 50; got != want {
		t.Errorf("%d points for %d traces", got, want)
	}
	if p.count(".scatter a.point.bad path") == 0 || p.count(".scatter a.point.good circle") == 0 {
		t.Error("failed traces are not told from others by shape")
	}

	// More pages.
	p.click(".more-button")
	p.wait("the second page is there", "document.querySelectorAll('.trace-item').length === 100")
	if got := eval[int](p, "new Set([...document.querySelectorAll('.trace-link')].map(a => a.href)).size"); got != 100 {
		t.Errorf("%d different traces on two pages of 50", got)
	}

	// By the form: the address says what is searched.
	p.wait("services are offered", "document.querySelectorAll('select[name=service] option').length > 5")
	p.do(chromedp.SetValue(chromedp.CSS("select[name=status]"), "error"), chromedp.SetValue(chromedp.CSS("select[name=service]"), "payment"))
	p.click("form.search button[type=submit]")
	p.wait("only payment's error is left", "document.querySelectorAll('.trace-item').length === 1")
	if got := eval[string](p, "location.hash"); !strings.Contains(got, "service=payment") || !strings.Contains(got, "status=error") {
		t.Errorf("the address is %s", got)
	}
	if got := eval[string](p, "document.querySelector('.trace-link').hash"); got != "#/trace/"+special["checkout"].String() {
		t.Errorf("found %s", got)
	}
	if got := p.text(".trace-item"); !strings.Contains(got, "2 errors") || !strings.Contains(got, "gateway") || !strings.Contains(got, "kept: something failed") {
		t.Errorf("the trace is listed as %q", got)
	}

	// Back, and forward.
	p.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void]("history.back()")(ctx, target)
		return err
	}))
	p.wait("the first search is back", "document.querySelectorAll('.trace-item').length === 50 && document.querySelector('select[name=status]').value === ''")

	// A link opens with the form filled in.
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/#/traces?state=unlinked&last=6h"))
	p.wait("the parts are found", "document.querySelectorAll('.trace-item').length === 2")
	if got := p.text(".trace-list"); !strings.Contains(got, "ends at payment: its calls are not linked") || !strings.Contains(got, "begins behind payment, whose calls are not linked") {
		t.Errorf("the traces are listed as %q", got)
	}
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(base+"/#/traces?state=incomplete&attr=service.name%3Dpayment&last=6h"))
	p.wait("the incomplete one is found", "document.querySelectorAll('.trace-item').length === 1")
	if got := p.text(".trace-item"); !strings.Contains(got, "parent of a span did not arrive") || !strings.Contains(got, "stands for 4.0") {
		t.Errorf("the trace is listed as %q", got)
	}
	if got := eval[string](p, "document.querySelector('input[name=attr]').value"); got != "service.name=payment" {
		t.Errorf("the form has %q", got)
	}
}

func TestSearchFindsNothing(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?operation=nobody+calls+this", 1280, 900)
	p.wait("it says so", "document.querySelector('.message-title')?.textContent === 'No trace matches.'")
	if got := p.text(".message"); !strings.Contains(got, "Remove a condition") {
		t.Errorf("it does not say what to do: %q", got)
	}
}

// With automatic refresh, new traces are listed without a click, and the focus stays.
func TestRefresh(t *testing.T) {
	now := time.Now()
	first, _ := shop(3, now)
	base, s, end, err := serve(t.TempDir(), nil, first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	p := open(t, base, "", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 8")
	p.click(".bar-line .toggle")
	eval[bool](p, "(window.href = document.querySelectorAll('.trace-link')[2].href, document.querySelectorAll('.trace-link')[2].focus(), true)")
	w := newWriter(11)
	w.trace(now, browse(1), nil, "")
	if err := s.Write(t.Context(), w.td); err != nil {
		t.Fatal(err)
	}
	p.wait("the new one is listed", "document.querySelectorAll('.trace-item').length === 9")
	if !eval[bool](p, "document.activeElement.href === window.href") {
		t.Error("the refresh took the focus away")
	}
}

// From … to, in the reader's time zone, as the server is asked for it.
func TestTimeRange(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "", 1280, 900)
	p.wait("traces are listed", "document.querySelectorAll('.trace-item').length === 50")
	set := func(name, ms string) {
		eval[bool](p, "(document.querySelector('input[name="+name+"]').value = new Date("+ms+" - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 19), true)")
	}
	eval[bool](p, "(s => { s.value = ''; return s.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('select[name=last]'))")
	p.wait("moments can be chosen", "document.querySelector('input[name=start]').checkVisibility()")
	set("start", "Date.now() - 30 * 60000")
	set("end", "Date.now() - 20 * 60000")
	p.click("form.search button[type=submit]")
	p.wait("the address has the moments", `/start=\d{13}&end=\d{13}/.test(location.hash)`)
	p.wait("what is listed lies between them", `(() => {
		const [from, to] = ['start', 'end'].map((k) => Number(new URLSearchParams(location.hash.split('?')[1]).get(k)));
		const times = [...document.querySelectorAll('.trace-item time')].map((e) => Date.parse(e.dateTime));
		return times.length > 20 && times.every((t) => t >= from && t < to);
	})()`)
	p.do(chromedp.Reload())
	p.wait("the form has them", "document.querySelector('input[name=start]')?.checkVisibility() && document.querySelector('input[name=start]').value.length >= 16")
}

func TestEmptyStore(t *testing.T) {
	p := open(t, mustServe(t, nil), "", 1280, 900)
	p.wait("it says so", "document.querySelector('.message-title')?.textContent === 'No spans are stored yet.'")
	p.do(chromedp.Navigate(p.base + "/#/map"))
	p.wait("the map says so", "document.querySelector('.message-title')?.textContent.startsWith('Nobody called')")
	p.do(chromedp.Navigate(p.base + "/#/health"))
	p.wait("health names what to configure", "document.body.textContent.includes('No agent or collector is known here.')")
}

func TestWrongInput(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "", 1280, 900)
	p.wait("the form is there", "document.querySelector('input[name=min]')")
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=min]"), "soon\r"))
	p.wait("the duration is refused", "document.querySelector('.problem').textContent.includes('250us')")
	if got := eval[string](p, "document.activeElement.name"); got != "min" {
		t.Errorf("the focus is in %q", got)
	}
	p.do(chromedp.Clear(chromedp.CSS("input[name=min]")), chromedp.SendKeys(chromedp.CSS("input[name=id]"), "12345\r"))
	p.wait("the id is refused", "document.querySelector('.problem').textContent.includes('32 hexadecimal')")
}

func TestTraceIDIsPasted(t *testing.T) {
	base, special := shopServer(t)
	p := open(t, base, "", 1280, 900)
	p.wait("the form is there", "document.querySelector('input[name=id]')")
	p.do(chromedp.SendKeys(chromedp.CSS("input[name=id]"), "00-"+special["checkout"].String()+"-00f067aa0ba902b7-01\r"))
	p.wait("the trace is shown", "document.querySelector('.trace-head h1')?.textContent.includes('POST /checkout')")
}

// An error response is shown with advice, and not as an empty list.
func TestAPIErrorIsShown(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/traces?min=nonsense", 1280, 900)
	p.expected = func(problem string) bool { return strings.Contains(problem, "400") }
	p.wait("it is shown", "document.querySelector('.message.error')")
	if got := p.text(".message.error"); !strings.Contains(got, "min") || !strings.Contains(got, "Try again") {
		t.Errorf("it says %q", got)
	}
	p.do(chromedp.Navigate(base + "/#/trace/4bf92f3577b34da6a3ce929d0e0e4736"))
	p.expected = func(problem string) bool { return strings.Contains(problem, "400") || strings.Contains(problem, "404") }
	p.wait("a missing trace is shown", "document.querySelector('.message-title')?.textContent === 'This trace is not stored.'")
}
