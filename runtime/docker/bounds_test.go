package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"healthd/runtime"
)

// largeLabels are as many labels as one may give a container in a request.
func largeLabels(number, size int) string {
	all := make([]string, number)
	for i := range all {
		all[i] = fmt.Sprintf(`"a%04d":"%s"`, i, strings.Repeat("x", size))
	}
	return strings.Join(all, ",")
}

// engineOfTenants is an engine with a container "honest" and one for each other name whose labels are too large. Its
// events are their creations, the honest one's at last.
func engineOfTenants(t *testing.T, large map[string]string) *Engine {
	t.Helper()
	var parts, events []string
	for name, labels := range large {
		parts = append(parts, fmt.Sprintf(`{"Id":%q,"Names":["/%s"],"Labels":{%s},"State":"created","Status":"Created"}`, name, name, labels))
		events = append(events, fmt.Sprintf(`{"Type":"container","Action":"create","Actor":{"ID":%q,"Attributes":{%s,"name":%q}},"timeNano":5}`, name, labels, name))
	}
	parts = append(parts, `{"Id":"honest","Names":["/honest"],"Labels":{"healthd.enable":"true"},"State":"running","Status":"Up 5 minutes"}`)
	events = append(events, `{"Type":"container","Action":"create","Actor":{"ID":"honest","Attributes":{"name":"honest"}},"timeNano":6}`)
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		id, inspects := strings.CutSuffix(r.URL.Path[strings.LastIndex(r.URL.Path, "/containers/")+1:], "/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			_, _ = io.WriteString(w, strings.Join(events, "\n")+"\n")
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			_, _ = io.WriteString(w, "["+strings.Join(parts, ",")+"]")
		case inspects:
			id = strings.TrimPrefix(id, "containers/")
			_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/%s","State":{"Status":"created"},"Config":{"Labels":{%s}}}`, id, id, large[id])
		}
	})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Close() })
	e, err := New(Config{Endpoint: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Tenants shape the labels of their containers: those of one hide no other.
func TestLargeLabelsHideNoContainer(t *testing.T) {
	large := map[string]string{"tenant": largeLabels(30, 100_000), "tenant-many": largeLabels(200, 4_000), "tenant-one": largeLabels(1, 2<<20)}
	e := engineOfTenants(t, large)

	listed, err := e.List(t.Context())
	if err != nil || len(listed) != len(large)+1 {
		t.Fatalf("%d containers are listed, %v; want %d", len(listed), err, len(large)+1)
	}
	for _, s := range listed {
		size := 0
		for key, value := range s.Labels {
			size += len(key) + len(value)
		}
		_, clipped := s.Labels[runtime.LabelsClipped]
		if size > runtime.MaxLabels+2*maxText || clipped != (s.ID != "honest" && s.ID != "tenant-one") {
			t.Errorf("%s has %d bytes of labels, clipped: %v", s.ID, size, clipped)
		}
		if in, err := e.Inspect(t.Context(), s.ID); s.ID != "honest" && (err != nil || !s.Matches(in)) {
			t.Errorf("the inspection of %s is %+v, %v: not what is listed", s.ID, in, err)
		}
	}
	stream, err := e.Subscribe(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for range len(large) + 1 {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID == "honest" && ev.Name == "honest" {
			return
		}
	}
	t.Error("the event of the honest container is missing")
}

// A name may be as long as a request. The list and the inspection show it alike, so that no container is inspected
// again and again.
func TestLongNames(t *testing.T) {
	e := engineOfTenants(t, map[string]string{strings.Repeat("n", 5000): ""})
	listed, err := e.List(t.Context())
	if err != nil || len(listed) != 2 {
		t.Fatalf("got %d containers, %v", len(listed), err)
	}
	for _, s := range listed[:1] {
		in, err := e.Inspect(t.Context(), s.ID)
		if err != nil || !s.Matches(in) || in.Name != s.Traits().Name || len(in.Name) != 253 {
			t.Errorf("listed as %.20q…, inspected as %+v, %v", s.Name, in, err)
		}
	}
}

// What is as long as healthd reads of it may have been longer.
func TestClippedTexts(t *testing.T) {
	long := strings.Repeat("x", 2*maxText)
	for name, tt := range map[string]struct {
		texts []string
		want  bool
	}{
		"none":                 {nil, false},
		"short":                {[]string{"A=1", "B=\x1b\u2028"}, false},
		"just not too long":    {[]string{long[:maxText-1]}, false},
		"too long":             {[]string{long}, true},
		"too long by escapes":  {[]string{strings.Repeat("<", maxText/5)}, true},
		"not by escapes":       {[]string{strings.Repeat("<", maxText/6-1)}, false},
		"too long by a half é": {[]string{long[:maxText-1] + "é"}, true},
		"many by escapes":      {slices.Repeat([]string{strings.Repeat("<", maxText/7)}, 2*maxTexts/maxText), true},
		"many":                 {slices.Repeat([]string{long[:maxText-1]}, maxTexts/maxText+2), true},
	} {
		text, err := json.Marshal(tt.texts)
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		if err := json.Unmarshal([]byte(clip(t, bytes.NewReader(text))), &read); err != nil || clipped(read) != tt.want || !tt.want && !slices.Equal(read, tt.texts) {
			t.Errorf("%s: clipped is %t, want %t, %v", name, clipped(read), tt.want, err)
		}
	}
}

func clip(t testing.TB, body io.Reader) string {
	t.Helper()
	clipped, err := io.ReadAll(newClipper(io.NopCloser(body)))
	if err != nil {
		t.Fatal(err)
	}
	return string(clipped)
}

func TestClipper(t *testing.T) {
	long, more := strings.Repeat("x", maxText), strings.Repeat("y", maxText+1)
	const marked = `"` + runtime.LabelsClipped + `":""`
	fill := func(format string) string { // more strings than maxTexts
		all := make([]string, maxTexts/maxText+3)
		for i := range all {
			all[i] = fmt.Sprintf(format, i, long)
		}
		return strings.Join(all, ",")
	}
	kept := func(format string) string { // those that are read
		all := make([]string, maxTexts/maxText)
		for i := range all {
			all[i] = fmt.Sprintf(format, i, long)
		}
		return strings.Join(all, ",")
	}
	for name, tt := range map[string]struct{ in, want string }{
		"spaces":                            {"[ { \"a\" : [ 1 , true ] , \"b c\" : null } , {} ]\n", "[{\"a\":[1,true],\"b c\":null},{}]\n"},
		"lines":                             {"{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}\n{\"b\":2}\n"},
		"no JSON":                           {"OK", "OK"},
		"a cut answer stays cut":            {`[{"a":"b`, `[{"a":"b`},
		"a string":                          {`["` + long + `z","b"]`, `["` + long + `","b"]`},
		"a name":                            {`{"` + long + `z":1}`, `{"` + long + `":1}`},
		"no escape is cut":                  {`["` + long[1:] + `\u00e4z","\\"]`, `["` + long[1:] + `\u00e4","\\"]`},
		"a quote beyond":                    {`["` + more + `\"\\","b"]`, `["` + more[:maxText] + `","b"]`},
		"labels":                            {`{"L":{` + fill(`"k%d":"%s"`) + `},"b":1}`, `{"L":{` + kept(`"k%d":"%s"`) + "," + marked + `},"b":1}`},
		"a list of strings":                 {`{"L":[` + fill(`"%d","%s"`) + `],"b":1}`, `{"L":[` + kept(`"%d","%s"`) + `],"b":1}`},
		"an object of objects is no labels": {`{"L":{` + fill(`"%d":{},"%s":{"a":"b"}`) + `},"b":1}`, `{"L":{` + kept(`"%d":{},"%s":{"a":"b"}`) + `},"b":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := clip(t, strings.NewReader(tt.in))
			if got != tt.want {
				t.Errorf("got %.300q (%d bytes), want %.300q (%d)", got, len(got), tt.want, len(tt.want))
			}
		})
	}
}

// A member of a container, with all that is in it, has a bound, and those after it come through.
func TestClipperBoundsMembers(t *testing.T) {
	mounts := strings.Repeat(`{"Source":"`+strings.Repeat("x", 5000)+`"},`, 3000) + "{}"
	in := `[{"Mounts":[` + mounts + `],"State":"running"},{"State":"exited"}]`
	got := clip(t, strings.NewReader(in))
	var all []struct {
		State  string
		Mounts []any
	}
	if err := json.Unmarshal([]byte(got), &all); err != nil {
		t.Fatal(err)
	}
	if len(got) > maxMember+10_000 || len(all) != 2 || all[0].State != "running" || all[1].State != "exited" || len(all[0].Mounts) < 100 {
		t.Errorf("%d bytes, %d containers, %d mounts", len(got), len(all), len(all[0].Mounts))
	}
}

func TestClipperRefuses(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"depth":       strings.NewReader(strings.Repeat("[", 1000)),
		"no JSON":     strings.NewReader(strings.Repeat("x", maxText+1)),
		"its reader":  iotest.ErrReader(io.ErrUnexpectedEOF),
		"its timeout": iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("[1]"))),
	} {
		if _, err := io.Copy(io.Discard, newClipper(io.NopCloser(body))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What is within the bounds means the same afterwards, however it arrives.
func FuzzClipper(f *testing.F) {
	for _, seed := range []string{
		`[{"Id":"a","Names":["/a"],"Labels":{"b":"c\u00e4\"\\"},"n":-1.5e3}]`, "{\"a\":[[],{}]}\n{\"b\":null}", `["\ud83d\ude00"]`, `"a" 1 true`, `{"a":`, "]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(r io.Reader) (string, error) {
			b, err := io.ReadAll(newClipper(io.NopCloser(r)))
			return string(b), err
		}
		whole, err := read(strings.NewReader(text))
		bytewise, err2 := read(iotest.OneByteReader(strings.NewReader(text)))
		if whole != bytewise || err != err2 {
			t.Fatalf("%q, %v; byte by byte %q, %v", whole, err, bytewise, err2)
		}
		var before, after any
		if len(text) > maxText || json.Unmarshal([]byte(text), &before) != nil || err != nil {
			return
		}
		if err := json.Unmarshal([]byte(whole), &after); err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%q became %q: %v", text, whole, err)
		}
	})
}

func BenchmarkClipper(b *testing.B) {
	part := `{"Id":"0123456789abcdef","Names":["/shop-web-1"],"Image":"nginx:1.29","Labels":{"com.docker.compose.project":"shop","healthd.liveness.http.path":"/healthz"},"State":"running"},`
	text := "[" + strings.Repeat(part, 10_000) + "{}]"
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, newClipper(io.NopCloser(strings.NewReader(text)))); err != nil {
			b.Fatal(err)
		}
	}
}
