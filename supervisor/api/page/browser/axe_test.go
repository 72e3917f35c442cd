package browser_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"healthd/supervisor"
	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// rules is axe-core, which make prerequisites installs.
const rules = "../../../../bin/npm/node_modules/axe-core/axe.min.js"

func axeCore(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-page runs it")
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatalf("%v: make prerequisites installs it", err)
	}
	return text
}

// violations runs axe-core and returns what breaks its rules, as "RULE: ELEMENT".
const violations = `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(
	r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 300) + " " + n.failureSummary))))`

// Every view can be used with a screen reader, and be read: axe-core finds nothing.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	every := []*core.View{
		container("shop", "web", 1), container("shop", "web", 2, notReady("503")), container("shop", "db", 1, crashLoop(1)), container("shop", "web", 3, starting),
		container("shop", "mailer", 1, stoppedByOperator), container("blog", "web", 1, paused), container("blog", "web", 2, lost), container("blog", "web", 3, held, restartedBefore),
		container("blog", "web", 4, invalid), container("blog", "web", 5, failingLiveness),
	}
	hosts := map[string]*host{"every state": newHost(t, every...), "all well": newHost(t, container("shop", "web", 1)), "nothing": newHost(t), "crowd": newHost(t, crowd(60, false)...)}
	hosts["fleet"] = newHostIn(t, newFleet(everyHost, etcdAway), container("shop", "web", 1))
	for i, reason := range []string{core.EventUnhealthy, core.EventReady, core.EventStarted, core.EventHeld, core.EventReloaded} {
		hosts["every state"].happens(every[i], reason, reason)
	}
	hosts["every state"].past(every[1], 20, 40)
	hosts["every state"].records.keep(every[1], 2, supervisor.RecordLiveness)
	for _, look := range []struct {
		scheme string
		width  int
	}{{"light", 1280}, {"light", 400}, {"dark", 1280}} { // what dark and narrow would find, these find
		t.Run(fmt.Sprint(look.scheme, look.width), func(t *testing.T) {
			t.Parallel()
			b := chromiumtest.New(t, look.width, look.scheme)
			chromiumtest.Call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // for axe-core
			for name, h := range hosts {
				for _, query := range []string{"", "?view=events", "?show=problems", "?c=shop-web-2", "?c=none"} {
					first := look.scheme == "light" && look.width == 1280
					if name != "every state" && (!first && (name != "fleet" || query != "") || query == "?show=problems" || query == "?c=none") {
						continue // what it would find there, it finds elsewhere
					}
					b.Open(h.url(query))
					if name == "fleet" && query == "" {
						b.Until(`!document.querySelector("#fleet").hidden`)
					}
					if query == "?c=shop-web-2" && name == "every state" {
						b.Until(`document.querySelector("aside .timeline") !== null`)
					}
					for _, v := range violationsOf(t, b, axe) {
						t.Errorf("%s %q, %s, %d px: %s", name, query, look.scheme, look.width, v)
					}
				}
			}
		})
	}
}

// violationsOf returns what breaks the rules.
func violationsOf(t *testing.T, b *chromiumtest.Tab, axe []byte) (found []string) {
	t.Helper()
	b.Do(chromedp.Evaluate[chromedp.Void](string(axe)))
	if err := json.Unmarshal([]byte(chromiumtest.Eval[string](b, violations)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// The rules do find what is wrong.
func TestAccessibilityRulesFind(t *testing.T) {
	axe := axeCore(t)
	b := chromiumtest.New(t, 1280, "light")
	chromiumtest.Call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	b.Open(newHost(t).url(""))
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#q").removeAttribute("aria-label"); document.querySelector("#q").placeholder = ""`))
	if found := violationsOf(t, b, axe); len(found) != 1 {
		t.Errorf("found %q", found)
	}
}
