package browser_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"

	"healthd/supervisor/api/page/chromiumtest"
)

// How long a page with 1,000 containers takes, in a browser that has its files already and in one that has not. What
// it says goes into docs/performance.md; only what does not depend on the machine is checked.
func TestFirstPaint(t *testing.T) {
	h := newHost(t, crowd(1000, false)...)
	for range 2 {
		b := chromiumtest.New(t, 1280, "light")
		b.Open(h.url(""))
		b.Until(`performance.getEntriesByName("first-contentful-paint").length > 0 && document.querySelectorAll("#rows tr").length === 1000`)
		var took map[string]float64
		if err := json.Unmarshal([]byte(chromiumtest.Eval[string](b, `JSON.stringify({
			first: performance.getEntriesByName("first-contentful-paint")[0].startTime,
			drawn: performance.getEntriesByName("drawn")[0].startTime,
			asked: performance.getEntriesByType("resource").find((r) => r.name.endsWith("/v1/overview")).startTime,
			answered: performance.getEntriesByType("resource").find((r) => r.name.endsWith("/v1/overview")).responseEnd,
			bytes: performance.getEntriesByType("resource").find((r) => r.name.endsWith("/v1/overview")).decodedBodySize,
			lists: performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/v1/overview")).length,
		})`)), &took); err != nil {
			t.Fatal(err)
		}
		t.Logf("first paint after %.0f ms, 1,000 containers after %.0f ms: asked for at %.0f, answered at %.0f with %.0f kB", took["first"], took["drawn"], took["asked"], took["answered"], took["bytes"]/1000)
		if took["lists"] != 1 || took["bytes"] > 700_000 {
			t.Errorf("%v lists of %v bytes", took["lists"], took["bytes"])
		}
	}
}

// 1,000 rows are scrolled through: how many frames came late is logged.
func TestScrolling(t *testing.T) {
	h := newHost(t, crowd(1000, false)...)
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Until(`document.querySelectorAll("#rows tr").length === 1000`)
	b.Do(chromedp.Evaluate[chromedp.Void](`window.frames_ = []; window.scrolled = false; (() => {
		let last = performance.now();
		const step = (now) => {
			frames_.push(now - last); last = now;
			scrollBy(0, 600);
			if (scrollY + innerHeight < document.documentElement.scrollHeight - 1) requestAnimationFrame(step); else scrolled = true;
		};
		requestAnimationFrame(step);
	})()`))
	b.Until(`scrolled`)
	var frames []float64
	if err := json.Unmarshal([]byte(chromiumtest.Eval[string](b, `JSON.stringify(frames_.slice(1).sort((a, b) => a - b))`)), &frames); err != nil {
		t.Fatal(err)
	}
	if len(frames) < 30 {
		t.Fatalf("%d frames", len(frames))
	}
	t.Logf("%d frames of 600 px: half within %.0f ms, 99 %% within %.0f ms, the longest %.0f ms", len(frames), frames[len(frames)/2], frames[len(frames)*99/100], frames[len(frames)-1])
	if !chromiumtest.Eval[bool](b, `document.querySelector("#rows tr:last-child").getBoundingClientRect().top < innerHeight`) {
		t.Error("the last row is not on the screen")
	}
}
