package page_test

import (
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	base, _ := shopServer(t)
	p := open(t, base, "#/health", 1280, 900)
	p.wait("four cards are there", "document.querySelectorAll('.source').length === 4")
	card := func(k int) string {
		return eval[string](p, "document.querySelectorAll('.source')["+string(rune('0'+k))+"].innerText.replaceAll('\u00a0', ' ')")
	}
	first := card(0)
	for _, want := range []string{"Agent and collector", "120 records", "2.50%", "ring_full", "did not read in time", "8 reasons at zero", "on_recv", "90 ns", "server_missing", "ends at a service: its calls are not linked", "No tag was ignored.",
		"shop\t400/s\t1.50 µs\t0.06%", "sockets that are not traced\t\t–\t0.02%", "42.0 MiB"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not told: %s", want, first)
		}
	}
	if strings.Contains(first, "queue_full") {
		t.Error("a reason at zero is not folded")
	}
	if got := card(1); !strings.Contains(got, "Nothing was lost: every sampled request became spans") || !strings.Contains(got, "--bpf-stats") || !strings.Contains(got, "Not weighed yet") {
		t.Errorf("an agent without losses: %s", got)
	}
	if got := card(1); !strings.Contains(got, "Peers that do not answer tags") || !strings.Contains(got, "[fd00::2]:80\t400\thas an agent") || !strings.Contains(got, "10.0.0.1:5432\t30\thas no agent") {
		t.Errorf("peers that do not answer: %s", got)
	}
	if got := card(2); !strings.Contains(got, "down") || !strings.Contains(got, "Is the process running") {
		t.Errorf("a source that is away: %s", got)
	}
	if got := card(3); !strings.Contains(got, "Every span that arrived was stored.") || !strings.Contains(got, "v0.0.0-test") {
		t.Errorf("the store: %s", got)
	}
	if got := p.text("h1"); got != "Health: 1 source down" {
		t.Errorf("the heading is %q", got)
	}
	// What somebody opened stays open when the numbers change; rates come with
	// the second reading.
	eval[bool](p, "(document.querySelector('.source details').open = true)")
	p.click(".source .sortable th:nth-child(4) button")
	p.wait("it is sorted", "document.querySelector('.source .sortable tbody tr').textContent.includes('on_fork')")
	eval[bool](p, "(window.was = document.activeElement, true)")
	p.wait("rates are there", "document.querySelector('.source').textContent.includes('of one CPU in the last')")
	if !eval[bool](p, "document.querySelector('.source details').open") {
		t.Error("the list was folded again")
	}
	if got := eval[string](p, "window.was.isConnected ? 'not drawn anew' : document.activeElement.textContent"); got != "Per run" {
		t.Errorf("the focus went to %q", got)
	}
	if got := p.text(".source .sortable tbody tr"); !strings.HasPrefix(got, "on_fork") {
		t.Errorf("the order is lost: %q is first", got)
	}
}
