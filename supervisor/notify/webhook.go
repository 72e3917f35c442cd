package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"healthd/supervisor"
)

// The headers of a webhook.
const (
	headerDelivery  = "X-Healthd-Delivery"  // Message.ID
	headerTimestamp = "X-Healthd-Timestamp" // Unix time of the attempt
	headerSignature = "X-Healthd-Signature" // see Sign
)

// Sign returns the signature of a body that was sent at a Unix time: "sha256=" and, in hexadecimal, the HMAC of
// TIMESTAMP.BODY. The time is in it so that nobody can send an old message again.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// sendWebhook posts a message. Any status from 200 to 299 is a success. A redirect is none: the body, which is
// signed, would go to somebody else. The error has nothing of the URL but its host.
func sendWebhook(ctx context.Context, r *Receiver, m *Message, now time.Time) error {
	const maxReply = 64 << 10 // bytes, which are not looked at
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	body = supervisor.Escape(body)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Webhook, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "healthd")
	request.Header.Set(headerDelivery, m.ID)
	timestamp := strconv.FormatInt(now.Unix(), 10)
	request.Header.Set(headerTimestamp, timestamp)
	if len(r.Secret) > 0 {
		request.Header.Set(headerSignature, Sign(r.Secret, timestamp, body))
	}
	client := &http.Client{
		// A message now and then does not need kept connections.
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxReply},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	reply, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL
		}
		return errors.New(redact(err.Error(), request.URL.User.String()+"/"+request.URL.RequestURI())) // the host is none
	}
	defer reply.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(reply.Body, maxReply))
	switch {
	case reply.StatusCode >= 300 && reply.StatusCode < 400:
		return fmt.Errorf("it answers %d: healthd does not follow redirects", reply.StatusCode)
	case reply.StatusCode < 200 || reply.StatusCode >= 300:
		return fmt.Errorf("it answers %d", reply.StatusCode)
	}
	return nil
}
