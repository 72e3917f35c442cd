package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"healthd/supervisor"
	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// A container's newest flight records are in its panel, with the command that shows each. What is in them is not.
func TestFlightRecords(t *testing.T) {
	v := container("shop", "web", 1, restartedBefore)
	h := newHost(t, v)
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url("?c=shop-web-1"))
	b.Until(`document.querySelector("aside .timeline") !== null`)
	if shown := chromiumtest.Eval[bool](b, `document.querySelector("aside .records").checkVisibility()`); shown {
		t.Error("records are shown, and there are none")
	}
	for run, cause := range []string{supervisor.RecordStartup, supervisor.RecordOOM, supervisor.RecordCrash, supervisor.RecordPostStart, supervisor.RecordCrash, supervisor.RecordLiveness} {
		h.records.keep(v, run+1, cause)
	}
	h.happens(v, core.EventKilling, "will be restarted")
	b.Says("aside .records", "run 6")
	const rows = `[...document.querySelectorAll("aside .records li")].map((l) => l.querySelector("span").textContent + ": " + l.querySelector("code").textContent).join("\n")`
	want := []string{"run 6: liveness probe failed", "run 5: crashed", "run 4: post_start hook failed", "run 3: crashed", "run 2: out of memory"}
	for i := range want {
		want[i] += fmt.Sprintf(": healthd why shop-web-1 --run %d", 6-i)
	}
	if got := chromiumtest.Eval[string](b, rows); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	b.Says("aside", "1 older one")

	for _, name := range []string{"clipboard-read", "clipboard-write"} { // the first for the test only
		chromiumtest.Call(b, browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted})
	}
	b.Do(chromedp.Evaluate[chromedp.Void](`window.button = document.querySelector("aside .records li:nth-child(2) button"); button.focus()`))
	h.happens(v, core.EventReady, "ready") // the panel is drawn anew
	b.Says("aside .events", "ready")
	b.Press("\r")
	b.Until(`button.textContent === "Copied" && document.activeElement === button`)
	if got := chromiumtest.Eval[string](b, `navigator.clipboard.readText()`); got != "healthd why shop-web-1 --run 5" {
		t.Errorf("copied %q", got)
	}
}

// Who has chosen the name of a container has not chosen what people copy into a shell.
func TestRecordsOfAHostileName(t *testing.T) {
	var all []*core.View
	for i, name := range hostile {
		v := container("shop", "web", i+1)
		v.Container.Name = name
		all = append(all, v)
	}
	h := newHost(t, all...)
	b := chromiumtest.New(t, 1280, "light")
	for _, v := range all {
		h.records.keep(v, 2, supervisor.RecordCrash)
		b.Open(h.url("?c=id:" + v.Container.ID))
		b.Says("aside .records code", "healthd why id:"+v.Container.ID+" --run 2")
		harmless(t, b)
	}
}
