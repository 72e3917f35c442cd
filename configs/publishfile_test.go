package configs

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is not set follows from the template, and of an own one from whether there is a reload.
func TestPublishFile(t *testing.T) {
	c := mustParse(t, `
[[publish_file]]
template     = "nginx"
path         = "/etc/nginx/conf.d/../conf.d/healthd.conf"
services     = ["shop/*", "db"]
check        = ["nginx", "-t"]
reload       = ["nginx", "-s", "reload"]
min_interval = "3s"
timeout      = "20s"
drain        = "2s"

[[publish_file]]
template = "prometheus"
path     = "/etc/prometheus/healthd.json"

[[publish_file]]
template = "/etc/healthd/own.tmpl"
path     = "/srv/own"

[[publish_file]]
template = "/etc/healthd/own.tmpl"
path     = "/srv/reloaded"
check    = ["check", "--file={candidate}"]
reload   = ["true"]
`)
	at := func(line int) place { return place{file: c.PublishFiles[0].place.file, order: 1, line: line} }
	const ten = 10 * time.Second
	want := []PublishFile{
		{Template: "nginx", Path: "/etc/nginx/conf.d/healthd.conf", Services: []string{"shop/*", "db"}, Check: []string{"nginx", "-t"}, Reload: []string{"nginx", "-s", "reload"},
			MinInterval: 3 * time.Second, Timeout: 20 * time.Second, Drain: 2 * time.Second, place: at(3), pathPlace: at(4), number: 1},
		{Template: "prometheus", Path: "/etc/prometheus/healthd.json", MinInterval: 5 * time.Second, Timeout: ten, place: at(13), pathPlace: at(14), number: 2},
		{Template: "/etc/healthd/own.tmpl", Path: "/srv/own", MinInterval: time.Second, Timeout: ten, Drain: 2500 * time.Millisecond, place: at(17), pathPlace: at(18), number: 3},
		{Template: "/etc/healthd/own.tmpl", Path: "/srv/reloaded", Check: []string{"check", "--file={candidate}"}, Reload: []string{"true"},
			MinInterval: time.Second, Timeout: ten, Drain: time.Second, place: at(21), pathPlace: at(22), number: 4},
	}
	if !reflect.DeepEqual(c.PublishFiles, want) {
		t.Errorf("got\n%+v, want\n%+v", c.PublishFiles, want)
	}
	if f := c.PublishFiles[0]; !f.Covers("shop/web") || !f.Covers("blog/db") || f.Covers("blog/web") || f.Own() || !c.PublishFiles[2].Own() {
		t.Error("patterns or own templates are taken for something else")
	}
	if f := c.PublishFiles[1]; !f.Covers("blog/web") || f.Covers("") {
		t.Error("a file without patterns has all services, and not what is none")
	}
}

// Each shipped template has its defaults, and no other name has.
func TestShippedTemplatesHaveDefaults(t *testing.T) {
	names := ShippedTemplates()
	for _, name := range names {
		if got := defaultsOf(name, false); got.name != name {
			t.Errorf("%s has the defaults %+v", name, got)
		}
	}
	if len(names) != len(shippedTemplates) {
		t.Errorf("there are %d names, and defaults for %d", len(names), len(shippedTemplates))
	}
}

// filesPart returns what the page says of [[publish_file]].
func filesPart(t *testing.T) string {
	t.Helper()
	_, part, found := strings.Cut(readReference(t), "\n### Published files\n")
	if !found {
		t.Fatal("there is no such part")
	}
	part, _, _ = strings.Cut(part, "\n### ")
	return part
}

// The page has every key of [[publish_file]], and the defaults of each template.
func TestDocumentedPublishFileKeys(t *testing.T) {
	documented := map[string]bool{}
	part := filesPart(t)
	for _, row := range keyRows(part) {
		for _, span := range codeSpan.FindAllStringSubmatch(row.key, -1) {
			documented[span[1]] = true
		}
	}
	if keys := keysOf(func(t *table) { (&PublishFile{}).read(t) }); !reflect.DeepEqual(documented, keys) {
		t.Errorf("documented are\n%v, the keys are\n%v", documented, keys)
	}
	for _, d := range shippedTemplates {
		if row := "| `" + d.name + "` | " + bareDuration(d.minInterval) + " | " + bareDuration(d.drain) + " |"; !strings.Contains(part, row) {
			t.Errorf("the page does not have %s", row)
		}
	}
}
