// Package chromiumtest opens pages in Chromium for tests, as people do: it waits for what is on the screen, types, clicks
// and looks. Each process has one browser, each tab belongs to a test.
package chromiumtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"healthd/e2e/patience"
)

// chromium is the browser of all tests, started by the first one that needs it.
var chromium struct {
	once   sync.Once
	ctx    context.Context
	err    error
	cancel []func()
}

// Close ends the browser, if a test has started one. Call it at the end of TestMain.
func Close() {
	for i := len(chromium.cancel) - 1; i >= 0; i-- { // the browser ends before its profile goes
		chromium.cancel[i]()
	}
}

// startChromium starts Debian's chromium with a new profile. An absent one is a failed test: make
// prerequisites installs it.
func startChromium() {
	profile, err := os.MkdirTemp("", "healthd-chromium")
	if err != nil {
		chromium.err = err
		return
	}
	chromium.cancel = append(chromium.cancel, func() { os.RemoveAll(profile) })
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(profile), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true), chromedp.WSURLReadTimeout(wait))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.cancel = append(chromium.cancel, end, cancel)
	chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
}

// Tab is a tab of the browser. What the page writes to the console as an error fails the test.
type Tab struct {
	t   *testing.T
	ctx context.Context
	// Close closes the tab before the end of the test: a browser keeps six connections to a host.
	Close func()
	mu    sync.Mutex
	calm  bool // errors are expected: of requests that find nobody
	// changed counts requests that failed with networkChanged.
	changed int
}

// wait is how long a test waits for whatever comes.
const wait = patience.Limit

// New opens a tab of so many pixels for a test of ring two, and closes it when the test ends. The scheme is light or dark.
func New(t *testing.T, width int, scheme string) *Tab {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-page runs it")
	}
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		t.Fatalf("cannot start chromium: %v: make prerequisites installs it", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx)
	t.Cleanup(cancel)
	b := &Tab{t: t, ctx: ctx, Close: cancel}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	Call(b, log.Enable, cdp.Empty{})
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	b.Do(chromedp.EmulateViewport(int64(width), 900))
	return b
}

func (b *Tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.t.Context().Err() != nil {
		return // the test is over: its host may be gone before the tab
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.t.Errorf("the page threw %s", text)
	case *log.EventEntryAdded:
		switch {
		case strings.Contains(e.Entry.Text, networkChanged):
			b.changed++
		case e.Entry.Level == log.EntryLevelError && !b.calm:
			b.t.Errorf("the page's console: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
}

// ExpectErrors says whether errors in the console are expected from now on.
func (b *Tab) ExpectErrors(expected bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm = expected
}

// Do does what may take as long as wait at most.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Call sends a command of the DevTools protocol.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// networkChanged is what the browser says of requests while the host gets or loses a network interface: engines of
// other tests do that.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// Open goes to a page and waits until its data is drawn.
func (b *Tab) Open(url string) {
	b.t.Helper()
	for tries := 0; ; tries++ {
		before := b.changes()
		b.Do(chromedp.Navigate(url))
		drawn := fmt.Sprintf(`performance.getEntriesByName("drawn").length > 0 || performance.now() > %d`, wait.Milliseconds()/4)
		b.Until(drawn)
		if Eval[int](b, `performance.getEntriesByName("drawn").length`) > 0 {
			return
		}
		if b.changes() == before || tries == 5 {
			b.Until(`performance.getEntriesByName("drawn").length > 0`) // and say what is there
		}
	}
}

// changes returns how often the network of the host has changed under a request.
func (b *Tab) changes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Eval returns the value of an expression.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Until waits until an expression is true.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*wait)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(5*time.Millisecond), chromedp.WithPollingTimeout(wait))); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 3000)`))
		b.t.Fatalf("it never was so: %s: %v\nthe page says:\n%s", expression, err, text)
	}
}

// Says waits until an element's text contains a text.
func (b *Tab) Says(selector, text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.textContent.replaceAll("\u00a0", " ").includes(%q)`, selector, text))
}

// Text returns the text of an element as it is seen.
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	text := Eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "no such element"`, selector))
	return strings.TrimSpace(strings.ReplaceAll(text, "\u00a0", " "))
}

// Want fails the test unless an element's text is that.
func (b *Tab) Want(selector, want string) {
	b.t.Helper()
	if got := b.Text(selector); got != want {
		b.t.Errorf("%s says %q, want %q", selector, got, want)
	}
}

// Press types a key as a person does.
func (b *Tab) Press(keys string) {
	b.t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// Search puts the cursor into the search box by its key. KeyEvent would type the key, too, whatever the page does
// with it.
func (b *Tab) Search(text string) {
	b.t.Helper()
	Call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Text: "/"})
	b.Until(`document.activeElement.id === "q"`)
	b.Press(text)
}

// Screenshot returns the visible part as a PNG.
func (b *Tab) Screenshot() []byte {
	b.t.Helper()
	return Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
}
