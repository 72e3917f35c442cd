package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/api/page/chromiumtest"
	"healthd/supervisor/core"
)

// shop is a small host. With trouble, one container is in a crash loop and one is not ready.
func shop(t *testing.T, trouble bool) *host {
	all := []*core.View{container("shop", "web", 1), container("shop", "web", 2), container("shop", "db", 1)}
	if trouble {
		all[1] = container("shop", "web", 2, notReady("HTTP probe failed with statuscode: 503: connection pool exhausted (32 of 32 in use)"), restartedBefore)
	}
	h := newHost(t, all...)
	h.past(all[0])
	h.past(all[2])
	h.past(all[1])
	now := time.Now()
	for _, v := range all {
		h.record(v, core.EventStarted, "container started", now.Add(-51*time.Hour))
		h.record(v, core.EventReady, "ready", now.Add(-51*time.Hour))
	}
	if trouble {
		h.past(all[1], 34)
		for i, output := range []string{"1/3", "2/3", "3/3"} {
			h.record(all[1], core.EventUnhealthy, "Liveness probe failed ("+output+"): dial tcp 172.18.0.4:8080: i/o timeout", now.Add(-35*time.Minute-time.Duration(20-10*i)*time.Second))
		}
		h.record(all[1], core.EventKilling, "Container shop-web-2 failed liveness probe, will be restarted", now.Add(-35*time.Minute))
		h.record(all[1], core.EventStarted, "container started", now.Add(-34*time.Minute))
		h.record(all[1], core.EventReady, "ready", now.Add(-33*time.Minute))
		h.record(all[1], core.EventUnhealthy, "Readiness probe failed (3/3): HTTP probe failed with statuscode: 503: connection pool exhausted (32 of 32 in use)", now.Add(-4*time.Minute))
		h.record(all[1], core.EventNotReady, "not ready: ReadinessFailed", now.Add(-4*time.Minute))
	}
	return h
}

func thousand(t *testing.T, healthy bool) *host {
	all := crowd(1000, healthy)
	h := newHost(t, all...)
	for i, v := range all {
		switch {
		case i%97 == 5 && v.State.Conditions.Ready.Status:
			v.State.Lasting.Restarts[core.ByLiveness] = 1
			h.past(v, 10+i%40)
		default:
			h.past(v)
		}
	}
	return h
}

// TestScreenshots takes pictures of what people see, for people to look at: into docs/images the few that the
// documents show if -update is set, else all into the directory HEALTHD_SCREENSHOTS, if that is set.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("HEALTHD_SCREENSHOTS")
	kept := map[string]bool{"shop-trouble-detail-1280-light": true, "thousand-trouble-1280-dark": true, "shop-trouble-detail-400-dark": true}
	hosts := map[string]func() *host{
		"shop": func() *host { return shop(t, false) }, "shop-trouble": func() *host { return shop(t, true) },
		"fleet": func() *host {
			return newHostIn(t, newFleet(everyHost), container("shop", "web", 1), container("shop", "web", 2), container("shop", "db", 1))
		},
		"fleet-away": func() *host { return newHostIn(t, newFleet(everyHost, etcdAway), container("shop", "web", 1)) },
		"fleet-many": func() *host { return newHostIn(t, newFleet(manyHosts(80)), container("shop", "web", 1)) },
		"thousand":   func() *host { return thousand(t, true) }, "thousand-trouble": func() *host { return thousand(t, false) },
	}
	views := map[string]string{"": "", "-detail": "?c=shop-web-2", "-events": "?view=events"}
	for name, newHost := range hosts {
		for view, query := range views {
			if view != "" && strings.HasPrefix(name, "fleet") {
				continue // they look as those of the others
			}
			if view == "-detail" && (name == "thousand" || name == "thousand-trouble") {
				query = "?c=shop-02-web-4"
			}
			for _, width := range []int{1280, 400} {
				for _, scheme := range []string{"light", "dark"} {
					file := fmt.Sprintf("%s%s-%d-%s", name, view, width, scheme)
					into := filepath.Join(dir, file+".png")
					switch {
					case *update && kept[file]:
						into = filepath.Join("../../../../docs/images", file+".png")
					case dir == "" && (*update || file != "shop-trouble-detail-1280-light"):
						continue
					}
					t.Run(file, func(t *testing.T) {
						b := chromiumtest.New(t, width, scheme)
						h := newHost()
						b.Open(h.url(query))
						if h.fleet != nil && view == "" {
							b.Until(`!document.querySelector("#fleet").hidden`)
						}
						if view == "-detail" {
							b.Until(`document.querySelector("aside .timeline") !== null`)
						}
						png := b.Screenshot()
						if len(png) < 5000 {
							t.Errorf("a picture of %d bytes", len(png))
						}
						if dir == "" && !*update {
							return
						}
						if err := os.WriteFile(into, png, 0o644); err != nil {
							t.Fatal(err)
						}
					})
				}
			}
		}
	}
}
