package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"healthd/runtime/hostproc"
)

// Chat and mail go through shoutrrr, in a process of their own: its senders know no deadline, some of them hang
// for ever with a server that does, and their errors have secrets in them.

// chatMessage is what that process gets.
type chatMessage struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// maxChat bounds the text, in bytes: some services refuse more.
const maxChat = 3500

// sendChat runs the command, which calls DeliverChat.
func sendChat(ctx context.Context, command []string, to string, m *Message) error {
	body, err := json.Marshal(chatMessage{to, m.Title, cut(m.Text, maxChat)})
	if err != nil {
		return err
	}
	output, err := runCommand(ctx, command, chatEnvironment(), body)
	if err != nil && output != "" {
		return errors.New(redact(output, to))
	}
	return err
}

// chatEnvironment has what decides about proxies and certificates, besides the bare one.
func chatEnvironment() []string {
	all := hostproc.BareEnvironment()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		for _, name := range []string{name, strings.ToLower(name)} {
			if value := os.Getenv(name); value != "" {
				all = append(all, name+"="+value)
			}
		}
	}
	return all
}

// DeliverChat reads a message as a Notifier hands it to its chat command, and sends it. It may never return: whoever
// runs it kills it. The error has nothing of the URL but its scheme.
func DeliverChat(from io.Reader) error {
	const most = 1 << 20
	var m chatMessage
	if err := json.NewDecoder(io.LimitReader(from, most)).Decode(&m); err != nil {
		return errors.New("cannot read the message")
	}
	// Its errors repeat the URL, and its log what it sends.
	service, err := (&router.ServiceRouter{}).Locate(m.URL)
	if err == nil {
		err = service.Send(chatText(m), titleOfService(m))
	}
	if err != nil {
		return fmt.Errorf("cannot send: %s", redact(oneLine(err.Error()), m.URL))
	}
	return nil
}

// plainChat takes from a text what chats make of it: calls of all who are there, and links with a text of their own. What probes
// and containers say is in it.
var plainChat = strings.NewReplacer("@", "@\u200b", "<", "‹", ">", "›", "](", "] (")

func chatText(m chatMessage) string {
	text := m.Title + "\n\n" + m.Text
	if scheme, _, _ := strings.Cut(m.URL, ":"); scheme == "smtp" {
		return text
	}
	return plainChat.Replace(text)
}

// titleOfService gives mail its subject, and services with titles theirs; the others ignore or refuse it.
func titleOfService(m chatMessage) *types.Params {
	scheme, _, _ := strings.Cut(m.URL, ":")
	if scheme == "smtp" {
		return &types.Params{"subject": m.Title}
	}
	return &types.Params{}
}
