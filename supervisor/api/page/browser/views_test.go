package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// What is wrong is the first line; why is the second.
func TestHeadline(t *testing.T) {
	b := chromiumtest.New(t, 1280, "light")
	for _, tt := range []struct {
		name, headline, problem string
		views                   []*core.View
	}{
		{"nothing", "healthd supervises no container", "", nil},
		{"all well", "All 2 containers are ready", "", []*core.View{container("shop", "web", 1), container("shop", "web", 2)}},
		{"one", "The container is ready", "", []*core.View{container("shop", "web", 1)}},
		{"some stopped on purpose", "Nothing is wrong: 1 of 3 containers ready", "", []*core.View{container("shop", "web", 1), container("shop", "web", 2, stoppedByOperator), container("shop", "web", 3, paused)}},
		{"a service down", "1 service down, 1 container in a crash loop", "Ended with exit code 7. Restarted 6 times. Next start in ",
			[]*core.View{container("shop", "web", 1), container("shop", "db", 1, crashLoop(7))}},
		{"not ready", "1 container not ready", "Readiness probe fails (24 in a row): HTTP probe failed with statuscode: 503",
			[]*core.View{container("shop", "web", 1), container("shop", "web", 2, notReady("HTTP probe failed with statuscode: 503"))}},
		{"soon", "1 container failing a probe", "Liveness probe failed 2 of 3 times: dial tcp", []*core.View{container("shop", "web", 1, failingLiveness)}},
		{"cannot be asked", "1 container with an Unknown probe", "Liveness probe has been Unknown 3 times in a row: too many open files", []*core.View{container("shop", "web", 1, unaskedLiveness)}},
		{"cannot be asked since its start", "1 container with an Unknown probe", "Liveness probe has been Unknown 3 times in a row: too many open files",
			[]*core.View{container("shop", "web", 1, starting, unaskedLiveness)}},
		{"engine away", "2 containers unknown: engine away", "healthd cannot reach its engine.", []*core.View{container("shop", "web", 1, lost), container("shop", "web", 2, lost)}},
		{"invalid", "1 container with invalid labels", `Label healthd.liveness.period: must be a duration, is "soon".`, []*core.View{container("shop", "web", 1, invalid)}},
	} {
		b.Open(newHost(t, tt.views...).url(""))
		if got := b.Text("#headline"); got != tt.headline {
			t.Errorf("%s: headline %q, want %q", tt.name, got, tt.headline)
		}
		if tt.problem == "" {
			b.Until(`document.querySelector("#problems").hidden`)
			continue
		}
		if got := b.Text("#problem-list li .why"); !strings.HasPrefix(got, tt.problem) {
			t.Errorf("%s: problem %q, want %q", tt.name, got, tt.problem)
		}
		if title := chromiumtest.Eval[string](b, `document.title`); !strings.HasPrefix(title, "(") || !strings.HasSuffix(chromiumtest.Eval[string](b, `document.querySelector("#icon").href`), ".svg") {
			t.Errorf("%s: title %q", tt.name, title)
		}
	}
}

// What concerns no container stands below the headline, as text. What is about the fleet stands there.
func TestWarnings(t *testing.T) {
	b := chromiumtest.New(t, 1280, "light")
	h := newHost(t, container("shop", "web", 1))
	b.Open(h.url(""))
	b.Until(`document.querySelector("#warnings").childElementCount === 0 && document.querySelector("#headline").textContent !== "healthd"`)
	h.warns.Store(&[]string{"HAProxy at /run/<b>x</b> cannot be updated", "fleet: elsewhere"})
	b.Open(h.url(""))
	b.Until(`document.querySelector("#warnings").childElementCount === 1`)
	if got := b.Text("#warnings li"); got != "HAProxy at /run/<b>x</b> cannot be updated" {
		t.Errorf("warning %q", got)
	}
	if got := b.Text("#headline"); got != "The container is ready, 1 warning" {
		t.Errorf("headline %q beside a warning", got)
	}
}

func TestTableAndServices(t *testing.T) {
	h := newHost(t, container("shop", "web", 1), container("shop", "web", 2, starting), container("shop", "web", 10, held), container("blog", "web", 1, notReady("no")))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	names := `[...document.querySelectorAll("#rows td.name a")].map((a) => a.textContent).join(" ")`
	if got, want := chromiumtest.Eval[string](b, names), "blog-web-1 shop-web-1 shop-web-2 shop-web-10"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if got, want := chromiumtest.Eval[string](b, `[...document.querySelectorAll("#rows td.state")].map((a) => a.textContent).join()`), "Not ready,Ready,Starting,Ready, held"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	if got := chromiumtest.Eval[string](b, `[...document.querySelectorAll("#service-list li")].map((a) => a.innerText.replace(/\s+/g, " ")).join("; ")`); !strings.HasPrefix(got, "web 0/1") || !strings.Contains(got, "web 2/3") {
		t.Errorf("services %s", got)
	}
	if got := chromiumtest.Eval[string](b, `document.querySelector("#rows .hour").getAttribute("aria-label")`); !strings.HasPrefix(got, "Ready in 0 of the last 1 minute") {
		t.Errorf("strip %q", got)
	}
}

// The URL says what is searched, filtered and open, so that it can be sent to somebody; going back goes back.
func TestPlaces(t *testing.T) {
	h := newHost(t, container("shop", "web", 1), container("shop", "db", 1, notReady("out of disk")), container("blog", "web", 1, restartedBefore))
	b := chromiumtest.New(t, 1280, "light")
	names := `[...document.querySelectorAll("#rows td.name a")].map((a) => a.textContent).join(" ")`
	rows := func(want string) {
		t.Helper()
		b.Until(names + ` === "` + want + `"`)
	}
	for query, want := range map[string]string{
		"?q=SHOP+db": "shop-db-1", "?show=problems": "shop-db-1", "?show=restarted": "blog-web-1", "?project=blog": "blog-web-1",
		"?q=web&project=shop": "shop-web-1", "?show=NotReady": "shop-db-1", "?q=readinessfailed": "shop-db-1",
	} {
		b.Open(h.url(query))
		rows(want)
	}
	b.Open(h.url("?q=nobody"))
	b.Says("#empty", "No container matches.")

	b.Open(h.url(""))
	b.Search("blog")
	rows("blog-web-1")
	if got := chromiumtest.Eval[string](b, `location.search`); got != "?q=blog" {
		t.Errorf("typing leads to %s", got)
	}
	b.Press(kb.Escape)
	rows("blog-web-1 shop-db-1 shop-web-1")
	b.Do(chromedp.Click("#filters a:nth-child(2)"))
	rows("shop-db-1")
	b.Search(kb.ArrowDown + kb.Enter)
	b.Says("#detail-name", "shop-db-1")
	if got := chromiumtest.Eval[string](b, `location.search`); got != "?show=problems&c=shop-db-1" && got != "?c=shop-db-1&show=problems" {
		t.Errorf("opening leads to %s", got)
	}
	b.Do(chromedp.NavigateBack())
	b.Until(`document.querySelector("#detail").hidden`)
	rows("shop-db-1")
	b.Do(chromedp.NavigateBack())
	rows("blog-web-1 shop-db-1 shop-web-1")
}

// All can be done with the keyboard.
func TestKeyboard(t *testing.T) {
	h := newHost(t, container("shop", "web", 1), container("shop", "web", 2), container("shop", "web", 3))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	at := `document.activeElement.textContent`
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#rows a[tabindex="0"]').focus()`))
	for _, step := range []struct{ key, want string }{{kb.ArrowDown, "shop-web-2"}, {kb.End, "shop-web-3"}, {kb.ArrowDown, "shop-web-3"}, {kb.ArrowUp, "shop-web-2"}, {kb.Home, "shop-web-1"}, {kb.ArrowDown, "shop-web-2"}} {
		b.Press(step.key)
		if got := chromiumtest.Eval[string](b, at); got != step.want {
			t.Errorf("focus on %q, want %q", got, step.want)
		}
	}
	if got := chromiumtest.Eval[int](b, `document.querySelectorAll('#rows a[tabindex="0"]').length`); got != 1 {
		t.Errorf("%d rows are stops of the Tab key", got)
	}
	b.Press(kb.Enter)
	b.Says("#detail-name", "shop-web-2")
	b.Until(`document.activeElement.id === "detail"`)
	b.Press(kb.Escape)
	b.Until(`document.querySelector("#detail").hidden && ` + at + ` === "shop-web-2"`)
}

// The panel has what explain says, but for the settings.
func TestDetail(t *testing.T) {
	v := container("shop", "web", 2, notReady("HTTP probe failed with statuscode: 503"), restartedBefore)
	v.Spec.Values = []core.Value{{Path: "readiness.http_get.headers", Value: "Authorization: hunter2", Origin: "healthd.toml:3"}}
	h := newHost(t, container("shop", "web", 1), v)
	h.past(v, 34)
	h.happens(v, core.EventUnhealthy, "Readiness probe failed (3/3): statuscode 503")
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url("?c=shop-web-2"))
	b.Until(`document.querySelector("aside .timeline") !== null`)
	b.Want("#detail-name", "shop-web-2")
	for selector, want := range map[string]string{
		"aside .state": "Not ready", "aside > .why": "Readiness probe fails (24 in a row): HTTP probe failed with statuscode: 503",
		"aside .facts": "restarts 1, policy Always", "aside .next": "readiness probe: after 1 success, it is ready",
		"aside .probes": "24 failures in a row", "aside .probes pre": "HTTP probe failed with statuscode: 503",
		"aside .changes": "restarted: liveness probe failed", "aside .events": "Readiness probe failed (3/3)",
		"aside .timeline": "Liveness: TCP every 10 s", "aside .timeline .cause": "liveness",
	} {
		b.Says(selector, want)
	}
	label := chromiumtest.Eval[string](b, `document.querySelector("aside .timeline").getAttribute("aria-label")`)
	if !strings.Contains(label, "restarted in 1") || !strings.Contains(label, "by liveness") || !strings.Contains(label, "readiness probe: ") {
		t.Errorf("the timeline says to a screen reader: %s", label)
	}
	if text := chromiumtest.Eval[string](b, `document.documentElement.textContent`); strings.Contains(text, "hunter2") {
		t.Error("it shows a setting")
	}
	b.Open(h.url("?c=gone"))
	b.Says("#detail", "healthd supervises no container of this name.")
}

func TestEventsView(t *testing.T) {
	v := container("shop", "web", 1)
	h := newHost(t, v)
	h.happens(v, core.EventStarted, "container started")
	h.happens(v, core.EventReady, "ready")
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url("?view=events"))
	b.Until(`document.querySelectorAll("#event-list li").length === 2`)
	h.happens(v, core.EventUnhealthy, "Liveness probe failed (1/3)")
	b.Says("#event-list li:first-child", "Liveness probe failed (1/3)")
	b.Search("unhealthy")
	b.Until(`document.querySelectorAll("#event-list li").length === 1`)
	b.Do(chromedp.Click("#event-list .who"))
	b.Says("#detail-name", "shop-web-1")
}
