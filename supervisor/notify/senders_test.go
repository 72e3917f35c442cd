package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"healthd/e2e/patience"
)

// TestMain stands in for healthd notify deliver.
func TestMain(m *testing.M) {
	if os.Getenv("LANG") == "C.UTF-8" && len(os.Args) > 1 && os.Args[1] == "deliver" {
		if err := DeliverChat(os.Stdin); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func chatCommand() []string { return []string{"/proc/self/exe", "deliver"} }

// sample is a message about a container whose probe has failed.
func sample() *Message {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	i := incident{
		subject: subject{Reason: CrashLoop, Runtime: "docker", Container: "shop-web-1", Service: "shop/web", Project: "shop"},
		Since:   at.Add(-12 * time.Minute), Cause: "its liveness probe failed: HTTP probe failed with statuscode: 500",
		Next: "healthd starts it again after a back-off of 40s",
	}
	m := newMessage("oncall", "host1", []Entry{newEntry(begun, i)}, 0, at)
	m.ID = newID()
	return m
}

// send makes one attempt.
func send(t *testing.T, r Receiver, m *Message) error {
	t.Helper()
	if r.Timeout == 0 {
		r.Timeout = patience.Limit
	}
	n := New(Config{Chat: chatCommand()})
	return n.attempt(t.Context(), &r, m)
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if got := fmt.Sprint(err); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(fmt.Sprint(err), "hidden-token") {
		t.Errorf("the error shows the secret: %v", err)
	}
}

// A webhook gets JSON by the schema, with an ID, and a signature over the time and the body.
func TestWebhook(t *testing.T) {
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	secret, m := []byte("key"), sample()
	if err := send(t, Receiver{Webhook: server.URL + "/hidden-token", Secret: secret}, m); err != nil {
		t.Fatal(err)
	}
	stamp := header.Get("X-Healthd-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age < -time.Second || age > time.Minute {
		t.Errorf("the time is %q", stamp)
	}
	if got, want := header.Get("X-Healthd-Signature"), Sign(secret, stamp, body); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if header.Get("X-Healthd-Delivery") != m.ID || header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", header)
	}
	checkSchema(t, body)
}

// The signature is HMAC-SHA256 as openssl makes it: printf '1767323045.{}' | openssl dgst -sha256 -hmac key
func TestSign(t *testing.T) {
	const want = "sha256=1d533de0941004dfdb6d222b1e197476ea94db2c6b6bca39a2ed148ff4b23910"
	if got := Sign([]byte("key"), "1767323045", []byte("{}")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func checkSchema(t *testing.T, body []byte) {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema)))
	if err == nil {
		err = compiler.AddResource("schema.json", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v", body, err)
	}
}

// All that healthd sends is as the schema says.
func TestSchema(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var many []Entry
	for i := range 200 {
		many = append(many, newEntry(begun, incident{subject: subject{Reason: CrashLoop, Container: fmt.Sprint("c", i)}, Since: now, Cause: clip(strings.Repeat("ä", 400))}))
	}
	over := newEntry(resolved, incident{subject: subject{Reason: RuntimeLost, Runtime: "docker"}, Since: now})
	over.Resolved = now
	for _, m := range []*Message{
		sample(), testMessage("oncall", "host1", now), newMessage("oncall", "", many, 3, now), newMessage("oncall", "host1", []Entry{over}, 0, now),
		newMessage("oncall", "host1", []Entry{newEntry(happened, incident{subject: subject{Reason: "OOMKilled", Container: "x"}, Since: now})}, 0, now),
	} {
		m.ID = newID()
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		checkSchema(t, body)
		if len(body) > 64<<10 {
			t.Errorf("a message has %d bytes", len(body))
		}
	}
}

// A webhook that does not take a message is an error that tells why, and nothing of the URL.
func TestBrokenWebhooks(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was redirected") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("do") {
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
		case "redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "hang":
			<-stopped.Done()
		case "stall":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-stopped.Done()
		case "flood":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "close":
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				c.Close()
			}
		}
	}))
	defer server.Close()
	defer stop()
	for do, want := range map[string]string{
		"500": "it answers 500", "redirect": "it answers 307: healthd does not follow redirects", "hang": "it takes longer than 300ms",
		"close": "EOF", "flood": "<nil>",
	} {
		t.Run(do, func(t *testing.T) {
			r := Receiver{Webhook: server.URL + "/hidden-token?do=" + do}
			if do == "hang" {
				r.Timeout = 300 * time.Millisecond
			}
			wantError(t, send(t, r, sample()), want)
		})
	}
	wantError(t, send(t, Receiver{Webhook: "http://user:hidden-token@127.0.0.1:1/hidden-token"}, sample()), "127.0.0.1:1: connect: connection refused")
	wantError(t, send(t, Receiver{Webhook: "http://127.0.0.1:1/\x7fhidden-token"}, sample()), "its URL cannot be used")
}

// A server whose certificate is not valid gets nothing.
func TestWebhookVerifiesTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it got the message") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	wantError(t, send(t, Receiver{Webhook: server.URL + "/hidden-token"}, sample()), "certificate")
}

// A command gets JSON on stdin, its arguments as they are, and nothing of healthd's environment.
func TestCommand(t *testing.T) {
	t.Setenv("HEALTHD_SECRET", "hidden-token")
	file := filepath.Join(t.TempDir(), "out")
	script := `cat > "$1"; printf '%s' "$2" > "$1.arg"; env > "$1.env"`
	if err := send(t, Receiver{Command: []string{"sh", "-c", script, "sh", file, "a $(b) 'c'"}}, sample()); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	checkSchema(t, []byte(read(file)))
	if got := read(file + ".arg"); got != "a $(b) 'c'" {
		t.Errorf("argument %q", got)
	}
	if env := read(file + ".env"); strings.Contains(env, "HEALTHD") || !strings.Contains(env, "PATH=") {
		t.Errorf("environment %s", env)
	}
}

// A command that fails, hangs or floods is ended, with all of its process group, and its output is bounded.
func TestBrokenCommands(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		timeout            time.Duration
	}{
		{"fails", "echo no; exit 3", "exit status 3: no", patience.Limit},
		{"hangs", "trap '' TERM INT; sleep 1000", "it takes longer than 3s", 3 * time.Second},
		{"floods", "exec yes", "it takes longer than 3s", 3 * time.Second},
		{"ignores its input", "exec true", "<nil>", patience.Limit},
		{"leaves something", "sleep 1000 & exit 0", "<nil>", patience.Limit},
		{"leaves something at a failure", "sleep 1000 & exit 1", "exit status 1", patience.Limit},
		{"ends by a signal", "kill -9 $$", "signal: killed", patience.Limit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			err := send(t, Receiver{Command: []string{"sh", "-c", "echo $$ > " + file + "; " + tt.script}, Timeout: tt.timeout}, sample())
			wantError(t, err, tt.want)
			wantGone(t, file)
		})
	}
	wantError(t, send(t, Receiver{Command: []string{"/nonexistent/page"}}, sample()), "no such file")
}

// wantGone waits until nobody lives of the process group whose leader has written its number to a file.
func wantGone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	group := strings.TrimSpace(string(text))
	patience.Until(t, "all of its process group are gone", func() error {
		if alive := livesIn(t, group); len(alive) > 0 {
			return fmt.Errorf("of %s these still run: %v", group, alive)
		}
		return nil
	})
}

// livesIn returns the processes of a group that are no zombies: nobody may reap those for long.
func livesIn(t *testing.T, group string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	var alive []string
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended meanwhile
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == group && f[0] != "Z" && f[0] != "X" {
			alive = append(alive, file)
		}
	}
	return alive
}

// Mail goes to a real SMTP server, with the title as its subject.
func TestMail(t *testing.T) {
	server := newMailServer(t)
	url := "smtp://" + server.address + "/?from=healthd@example.com&to=oncall@example.com&starttls=no&auth=None"
	if err := send(t, Receiver{URL: url}, sample()); err != nil {
		t.Fatal(err)
	}
	mail := <-server.mails
	for _, want := range []string{"Subject: [host1] CrashLoop: shop-web-1", "oncall@example.com", "statuscode: 500", "healthd explain shop-web-1"} {
		if !strings.Contains(mail, want) {
			t.Errorf("the mail lacks %q:\n%s", want, mail)
		}
	}
}

// A mail server that hangs is given up after the timeout, also where shoutrrr would wait for ever.
func TestChatThatHangs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	url := "smtp://user:hidden-token@" + ln.Addr().String() + "/?from=a@example.com&to=b@example.com"
	wantError(t, send(t, Receiver{URL: url, Timeout: time.Second}, sample()), "it takes longer than 1s")
}

// What shoutrrr says of a failure has the URL in it.
func TestChatErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for url, want := range map[string]string{
		"generic://" + host + "/hidden-token?disabletls=yes":             "403",
		"generic://127.0.0.1:1/hidden-token?disabletls=yes":              "connection refused",
		"slack://hidden-token":                                           "cannot send",
		"telegram://hidden-token@telegram?chats=@x":                      "cannot send",
		"smtp://user:hidden-token@127.0.0.1:1/?from=a@b.c&to=d@e.f":      "connection refused",
		"discord://hidden-token@hidden-token-id/too/many":                "cannot send",
		"gotify://" + host + "/hidden-token?disabletls=yes&title=x":      "cannot send",
		"ntfy://user:hidden-token@" + host + "/hidden-token?scheme=http": "cannot send",
	} {
		wantError(t, send(t, Receiver{URL: url}, sample()), want)
	}
}

// mailServer speaks as much SMTP as a client needs.
type mailServer struct {
	address string
	mails   chan string
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{ln.Addr().String(), make(chan string, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.serve(c)
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return s
}

func (s *mailServer) serve(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience.Limit))
	r := textproto.NewReader(bufio.NewReader(c))
	fmt.Fprint(c, "220 test\r\n")
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		switch command := strings.ToUpper(line); {
		case strings.HasPrefix(command, "DATA"):
			fmt.Fprint(c, "354 go on\r\n")
			lines, err := r.ReadDotLines()
			if err != nil {
				return
			}
			s.mails <- strings.Join(lines, "\n")
			fmt.Fprint(c, "250 taken\r\n")
		case strings.HasPrefix(command, "QUIT"):
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}

// Probes and containers say what they like: a chat must not call everybody for it.
func TestChatHasNoMarkup(t *testing.T) {
	m := chatMessage{URL: "slack://token@channel", Title: "GaveUp: web", Text: "<!channel> @everyone [log in](http://x) <http://x|here>"}
	got := chatText(m)
	for _, markup := range []string{"<", ">", "@e", "]("} {
		if strings.Contains(got, markup) {
			t.Errorf("%q is in %q", markup, got)
		}
	}
	if m.URL = "smtp://mail"; chatText(m) != m.Title+"\n\n"+m.Text {
		t.Errorf("a mail has %q", chatText(m))
	}
}
