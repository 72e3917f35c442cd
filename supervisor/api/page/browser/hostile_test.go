package browser_test

import (
	"strconv"
	"strings"
	"testing"

	"healthd/prober"
	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// hostile is what somebody would write who wants the browser to take a text for more.
var hostile = []string{
	`<script>window.pwned = 1</script>`, `<img src=x onerror="window.pwned = 1">`, `"><svg onload=window.pwned=1>`, `javascript:window.pwned=1`,
	`{{constructor.constructor('window.pwned=1')()}}`, `<style>*{display:none}</style>`, `</textarea></title><iframe srcdoc="<script>parent.pwned=1</script>">`,
	"\u202egnirts desrever\u202c", strings.Repeat("W", 500), "line\r\nline\x00\x1b[31mred", "&lt;b&gt;", `<a href="https://evil.example.com">here</a>`,
}

// Whatever containers write is text: in names, images, services, outputs and events.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	var all []*core.View
	for i, text := range hostile {
		v := container("shop", "web", i+1, notReady(text))
		v.Container.Name, v.Container.Image, v.Container.Error = text, text, text
		v.Service, v.Container.Labels[core.ComposeProject] = text, text
		v.State.Health.Probes[core.Liveness].Last = prober.Result{Outcome: prober.Failure, Output: text}
		v.State.Gates = []core.Gate{{Type: text}}
		v.Spec.ReadinessGates = []string{text}
		all = append(all, v)
	}
	h := newHostIn(t, newFleet(hostileFleet), all...)
	for i, v := range all {
		h.record(v, hostile[i], hostile[i], v.State.Run.StartedAt)
	}
	for _, width := range []int{1280, 400} {
		b := chromiumtest.New(t, width, "light")
		for _, query := range []string{"", "?view=events", "?show=problems&q=%3Cscript%3E"} {
			b.Open(h.url(query))
			if query == "" {
				b.Until(`document.querySelectorAll("#fleet-hosts li").length === ` + strconv.Itoa(len(hostile)))
			}
			harmless(t, b)
		}
		for _, v := range all {
			b.Open(h.url("?c=id:" + v.Container.ID))
			b.Until(`document.querySelector("aside .timeline") !== null`)
			harmless(t, b)
		}
		b.Open(h.url("?c=%3Cimg+src=x+onerror=window.pwned=1%3E&q=%3Cscript%3Ewindow.pwned=1%3C/script%3E&show=__proto__&view=constructor&project=%3Cb%3E"))
		harmless(t, b)
	}
}

// harmless checks that the page has only elements of its own, that no code ran, and that it fits its width.
func harmless(t *testing.T, b *chromiumtest.Tab) {
	t.Helper()
	const own = `window.pwned === undefined && document.querySelectorAll("body script, body style, img, iframe, a[href^='http'], a[href^='javascript'], title *").length === 0`
	if !chromiumtest.Eval[bool](b, own) {
		t.Errorf("a text became markup: %s", chromiumtest.Eval[string](b, `location.href`))
	}
	if wide := chromiumtest.Eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		t.Errorf("%s is %d px too wide", chromiumtest.Eval[string](b, `location.href`), wide)
	}
	if other := chromiumtest.Eval[string](b, `performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith(location.origin)).join()`); other != "" {
		t.Errorf("it asked somebody else: %s", other)
	}
}
