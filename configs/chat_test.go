package configs

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

// What shoutrrr can send to is taken, and what lacks something is not. Nobody is asked for that: the host is one
// that nobody may connect to.
func TestChatURLs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan net.Conn, 1)
	go func() {
		defer close(asked)
		if conn, err := ln.Accept(); err == nil {
			asked <- conn
		}
	}()
	host := ln.Addr().String()
	for _, good := range []string{
		"slack://hook:T00000000-B00000000-XXXXXXXXXXXXXXXXXXXXXXXX@webhook", "discord://token@1234", "telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw@telegram?chats=@channel",
		"smtp://user:p%40ss@HOST/?from=a@b.example&to=c@d.example", "ntfy://HOST/topic", "gotify://HOST/AzyoeNS.D4iJLVa?disabletls=yes", "generic://HOST/x?disabletls=yes", "generic+http://HOST/x",
		"matrix://user:password@HOST/?disableTLS=yes", "matrix://:token@HOST/?disableTLS=yes", "matrix://user@HOST/?disableTLS=yes", "mattermost://user@HOST/token/channel", "pushover://shoutrrr:token@user", "bark://:key@HOST",
		"SMTP://HOST/?from=a@b.example&to=c@d.example",
	} {
		if wrong := checkChatURL(strings.ReplaceAll(good, "HOST", host)); wrong != "" {
			t.Errorf("%s: %s", good, wrong)
		}
	}
	for _, bad := range []string{
		"slack://token@channel", "slack://", "discord://token@id/too/many", "telegram://token@telegram?chats=@x", "telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw@telegram",
		"smtp://mail.example/?from=a@b.example", "smtp://mail.example/?from=a@b.example&to=c@d.example&auth=Magic", "ntfy://topic", "pushover://x", "pagerduty://", "teams://x", "zulip://x", "ntfy+https://ntfy.example/topic",
	} {
		if wrong := checkChatURL(bad); !strings.HasPrefix(wrong, "is no URL as shoutrrr wants it for ") {
			t.Errorf("%s: %q", bad, wrong)
		}
	}
	ln.Close()
	if conn := <-asked; conn != nil {
		conn.Close()
		t.Error("somebody was asked")
	}
}

// What shoutrrr does with a URL of any scheme and form ends, and is no crash.
func FuzzChatURL(f *testing.F) {
	for _, scheme := range ChatSchemes() {
		f.Add(scheme + "://user:password@127.0.0.1:1/a/b?c=d&to=e#f")
		f.Add(scheme + "://")
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err == nil && u.Scheme != "" {
			readsChatURL(*u)
		}
		if wrong := checkChatURL(s); len(wrong) > 1000 {
			t.Errorf("%q: %s", s, wrong)
		}
	})
}
