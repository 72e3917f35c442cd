package browser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// A change is on the screen at once, without a reload.
func TestLive(t *testing.T) {
	web := container("shop", "web", 1)
	h := newHost(t, web, container("shop", "web", 2))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url("?c=shop-web-1"))
	b.Says("#connection", "Live")
	b.Want("#headline", "All 2 containers are ready")

	began := time.Now()
	h.happens(container("shop", "web", 1, notReady("the cache is cold")), core.EventNotReady, "not ready: ReadinessFailed")
	b.Says("#headline", "not ready")
	t.Logf("a change is on the screen after %v", time.Since(began))
	b.Says("#problem-list", "the cache is cold")
	b.Says("#rows", "Not ready")
	b.Says("aside .state", "Not ready")
	b.Says("aside .events", "not ready: ReadinessFailed")

	h.happens(web, core.EventReady, "ready")
	b.Says("#headline", "All 2")
	h.board.Show(container("blog", "web", 1)) // no event tells of it
	b.Says("#headline", "All 3")
	b.ExpectErrors(true) // the panel may ask for what is gone
	h.board.Remove(web.Container.ID)
	b.Says("#headline", "All 2")
	b.Says("#detail", "healthd supervises no container of this name.")
}

// What somebody is about to press stays where it is while the rest changes.
func TestFocusStays(t *testing.T) {
	h := newHost(t, container("shop", "web", 1), container("shop", "web", 2, notReady("no")), container("shop", "db", 1))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#connection", "Live")
	for i, selector := range []string{"#rows tr:nth-child(2) a", "#service-list a", "#filters a:nth-child(3)", "#counts a", "#problem-list a", "#project", "#q"} {
		b.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.before = document.querySelector(%q); before.focus()`, selector)))
		project := fmt.Sprint("blog-", i)
		h.happens(container(project, "web", 1, notReady("no")), core.EventNotReady, "not ready")
		b.Says("#rows", project)
		if !chromiumtest.Eval[bool](b, `document.activeElement === before && before.isConnected`) {
			t.Errorf("%s has lost the focus to %s", selector, chromiumtest.Eval[string](b, `document.activeElement.outerHTML.slice(0, 100)`))
		}
	}
}

// While many change at once, the page asks for all of them now and then, and ends with what is.
func TestStorm(t *testing.T) {
	all := crowd(200, true)
	h := newHost(t, all...)
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#connection", "Live")
	for i := range all {
		notReady("all at once")(all[i])
		h.happens(all[i], core.EventNotReady, "not ready")
	}
	b.Says("#headline", "200")
	b.Says("#problem-more", "All 200 problems")
	if n := chromiumtest.Eval[int](b, `performance.getEntriesByType("resource").filter((r) => r.name.includes("/v1/overview")).length`); n > 60 {
		t.Errorf("%d requests for 200 changes", n)
	}
}

// A lost connection says so. When it is back, nothing is missing and nothing is there twice.
func TestReconnect(t *testing.T) {
	web := container("shop", "web", 1)
	h := newHost(t, web)
	for i := range 3 {
		h.happens(web, core.EventUnhealthy, fmt.Sprint("before ", i))
	}
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url("?view=events"))
	b.Says("#event-list", "before 2")
	h.happens(web, core.EventUnhealthy, "live 0")
	b.Says("#event-list", "live 0")

	b.ExpectErrors(true)
	h.stop()
	b.Says("#connection", "Connection lost")
	b.Says("#lost", "Shown is how it was at")
	h.happens(container("shop", "web", 1, notReady("while nobody looked")), core.EventNotReady, "away 0")
	h.happens(container("blog", "web", 1), core.EventReady, "away 1")
	h.listen(h.address)
	b.Says("#connection", "Live")
	b.Says("#event-list", "away 1")
	b.Says("#headline", "not ready")
	b.Until(`document.querySelector("#lost").hidden`)
	h.happens(web, core.EventReady, "live 1")
	b.Says("#event-list", "live 1")
	const messages = `[...document.querySelectorAll("#event-list .message")].map((m) => m.textContent).join()`
	if got, want := chromiumtest.Eval[string](b, messages), "live 1,away 1,away 0,live 0,before 2,before 1,before 0"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// A page whose events have fallen out of the history, or whose healthd began anew, asks for everything again.
func TestLostHistory(t *testing.T) {
	web := container("shop", "web", 1)
	h := newHost(t, web)
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	for i := range 5 {
		h.happens(web, core.EventUnhealthy, fmt.Sprint("old ", i))
	}
	b.Until(`performance.getEntriesByType("resource").some((r) => r.name.includes("container="))`)
	b.ExpectErrors(true)
	h.stop()
	b.Says("#connection", "Connection lost")
	other := newHost(t, container("shop", "web", 2)) // its journal was lost, too
	other.stop()
	other.listen(h.address)
	b.Says("#connection", "Live")
	b.Says("#rows", "shop-web-2")
	b.Until(`document.querySelectorAll("#rows tr").length === 1`)
	other.happens(container("shop", "web", 3), core.EventReady, "new")
	b.Says("#rows", "shop-web-3")
}

// Before healthd answers, the page says that nothing is known.
func TestNoData(t *testing.T) {
	h := newHost(t)
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#empty", "Write a spec")
}
