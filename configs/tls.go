package configs

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"healthd/prober"
)

// maxPEM bounds a file with certificates or a key, in bytes. Those of distributions have 250 KiB.
const maxPEM = 1 << 20

// pemFile is what a file with certificates or a key had when the configuration was read.
type pemFile struct {
	text    string
	err     error
	checked sync.Map // what check found, by key
}

// check returns what is wrong with the file as certificates of that key; without key, of authorities. Many specs
// may name the file, and one with the authorities of a distribution takes 10 ms.
func (p *pemFile) check(key *pemFile) error {
	type finding struct{ err error }
	if p == nil { // nobody has read it
		return nil
	}
	if found, ok := p.checked.Load(key); ok {
		return found.(finding).err
	}
	client := &prober.TLSClient{CA: p.text}
	if key != nil {
		client = &prober.TLSClient{Cert: p.text, Key: key.text}
	}
	err := client.Check()
	p.checked.Store(key, finding{err})
	return err
}

// pemKeys are the keys of a tls table that name files.
func pemKeys() []string { return []string{"ca_file", "cert_file", "key_file"} }

// readPEMs reads the files that tls tables in n name, so that all that resolves a container has them
// at hand, and the same ones.
func (l *loader) readPEMs(n *node) {
	for key, field := range n.fields {
		if key == "tls" {
			for _, name := range pemKeys() {
				if file := field.fields[name]; file != nil && file.kind == stringKind && checkFile(file.text) == "" {
					file.pem = l.pem(file.text)
					if name == "cert_file" {
						l.certs = append(l.certs, file)
					}
				}
			}
		}
		l.readPEMs(field)
	}
	for _, item := range n.items {
		l.readPEMs(item)
	}
}

// EndedCertificates returns healthd's own certificates for probes and hooks that servers refuse at that moment. A
// configuration with one is taken all the same: without it, healthd would not start.
func (c *Config) EndedCertificates(now time.Time) Problems {
	var all Problems
	for _, n := range c.certs {
		if end, ok := n.pem.ends(); ok && now.After(end) {
			all = append(all, n.at.problem("tls.cert_file", "%s has ended at %s", quote(n.text), end.UTC().Format(time.RFC3339)))
		}
	}
	all.sort()
	return all
}

// CertificateEnds returns when healthd's own certificates for probes and hooks end, by file.
func (c *Config) CertificateEnds() map[string]time.Time {
	all := make(map[string]time.Time)
	for _, n := range c.certs {
		if end, ok := n.pem.ends(); ok {
			all[n.text] = end
		}
	}
	return all
}

// ends returns when the certificate ends that the file begins with, and false if it begins with none.
func (p *pemFile) ends() (time.Time, bool) {
	block, _ := pem.Decode([]byte(p.text))
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}

func (l *loader) pem(file string) *pemFile {
	p := l.pems[file]
	if p == nil {
		p = &pemFile{}
		p.text, p.err = readPEM(file)
		l.pems[file] = p
	}
	return p
}

func readPEM(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(file); err == nil {
			defer f.Close()
			var text []byte
			if text, err = io.ReadAll(io.LimitReader(f, maxPEM+1)); len(text) > maxPEM {
				return "", fmt.Errorf("it has more than %d bytes", maxPEM)
			}
			if err == nil {
				return string(text), nil
			}
		}
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err
	}
	return "", err
}

func checkFile(s string) string {
	if !path.IsAbs(s) || checkLine(s) != "" {
		return "must be an absolute path"
	}
	return ""
}

// tls reads how the handler of t speaks TLS; nil: it has no such table.
func (t *table) tls() *prober.TLSClient {
	sub := t.sub("tls")
	if sub.n == nil {
		return nil
	}
	before := len(t.problems)
	c := &prober.TLSClient{CA: sub.pem("ca_file"), Cert: sub.pem("cert_file"), Key: sub.pem("key_file")}
	c.ServerName = sub.optional("server_name", checkServerName)
	c.Verify = sub.boolean("verify", c.CA != "")
	if !sub.has("verify") {
		sub.value("verify", strconv.FormatBool(c.Verify), nil)
	}
	sub.done()
	if len(t.problems) == before {
		sub.checkPEMs()
	}
	return c
}

func checkServerName(s string) string {
	if s == "" || checkHost(s) != "" {
		return "must be a host name or an IP address, without port"
	}
	return ""
}

// pem returns what the file had that the key names.
func (t *table) pem(key string) string {
	t.fileOnly(key)
	n := t.take(key)
	if n == nil || n.at.fromLabel() {
		return ""
	}
	file, ok := t.checked(n, t.at(key), checkFile)
	switch {
	case !ok || n.pem == nil:
		return ""
	case n.pem.err != nil:
		t.wrong(n, t.at(key), "%s cannot be read: %v", quote(file), n.pem.err)
		return ""
	case n.pem.text == "":
		t.wrong(n, t.at(key), "%s is empty", quote(file))
	}
	t.value(key, quoteTOML(file), n)
	return n.pem.text
}

// checkPEMs reports certificates that cannot be used. Labels change none of them, so that not each
// container needs to have them parsed again.
func (t *table) checkPEMs() {
	cert, key := t.n.fields["cert_file"], t.n.fields["key_file"]
	switch {
	case t.partial:
	case cert != nil && key == nil:
		t.wrong(cert, t.at("cert_file"), "needs key_file")
	case cert == nil && key != nil:
		t.wrong(key, t.at("key_file"), "needs cert_file")
	}
	if t.rules != nil {
		return
	}
	if ca := t.n.fields["ca_file"]; ca != nil {
		if err := ca.pem.check(nil); err != nil {
			t.wrong(ca, t.at("ca_file"), "%s: %v", quote(ca.text), err)
		}
	}
	if cert != nil && key != nil {
		if err := cert.pem.check(key.pem); err != nil {
			t.wrong(cert, t.at("cert_file"), "%s: %v", quote(cert.text), err)
		}
	}
}

// needHTTPS reports a tls table beside another scheme than https.
func (t *table) needHTTPS(scheme string) {
	n, s := t.n.fields["tls"], t.n.fields["scheme"]
	if n == nil || scheme == "https" || t.partial {
		return
	}
	by, path := labelled(n, t.at("tls"))
	switch {
	case by != nil:
		t.wrong(by, path, `needs scheme = "https"`)
	case s != nil && s.at.fromLabel(): // the file was right without it
		t.wrong(s, t.at("scheme"), `must be "https", because %s sets tls`, n.at)
	default:
		t.wrong(n, t.at("tls"), `needs scheme = "https"`)
	}
}

// namesFiles returns the file of certificates or a key that a file's handler names.
func namesFiles(handler *node) (by *node, key string) {
	for _, key := range pemKeys() {
		if n := handler.below("tls." + key); n != nil && !n.at.fromLabel() {
			return n, "tls." + key
		}
	}
	return nil, ""
}

// labelled returns the first value in n, which is at path, that a label set, and its path; nil: there
// is none.
func labelled(n *node, path string) (*node, string) {
	if n.kind != tableKind {
		if n.at.fromLabel() {
			return n, path
		}
		return nil, ""
	}
	t := &table{n: n, path: path}
	keys := n.keys()
	i := slices.IndexFunc(keys, func(key string) bool { return labelIn(n.fields[key]) })
	if i < 0 {
		return nil, ""
	}
	return labelled(n.fields[keys[i]], t.at(keys[i]))
}
