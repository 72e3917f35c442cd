// Package page is the web page of the read-only listener: a few files, embedded as they are. It knows nothing of
// containers. In the browser it asks the API of the listener that it came from, and nobody else.
//
//	files/index.html   what is there before any data comes
//	files/app.js       wires the rest: what the URL says, the keyboard, what is drawn when
//	files/store.js     the data: the event stream, and what is asked because of it
//	files/words.js     from the API's terms to plain words. Pure
//	files/*.js         the views. They write texts and attributes, never markup
//
// The modules are plain JavaScript: nothing is built.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

// Index is the page itself.
const Index = "index.html"

//go:embed files
var embedded embed.FS

// policy lets the page run its own files and ask its own listener. What a container writes can add nothing to it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one of the embedded files with what does not change of its headers.
type file struct {
	content    []byte
	kind, etag string
}

var files = read()

func read() map[string]file {
	all := map[string]file{}
	entries, err := embedded.ReadDir("files")
	if err != nil {
		panic(err) // cannot happen: they are in the program
	}
	for _, e := range entries {
		content, err := embedded.ReadFile("files/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		f := file{content: content, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, kind: kinds[path.Ext(e.Name())]}
		all[e.Name()] = f
	}
	return all
}

// kinds are of all files. Package mime would look into tables of the host.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// Serve answers with a file of the page, or with 304 to a browser that has it already. It returns false, and
// answers nothing, if there is no such file.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := files[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // ask each time: the next healthd may have another page
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
	return true
}
