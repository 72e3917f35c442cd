package files

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

//go:embed templates/*.tmpl
var templates embed.FS

// Shipped returns the template of that name that healthd ships.
func Shipped(name string) (*Template, error) {
	text, err := templates.ReadFile("templates/" + name + ".tmpl")
	if err != nil {
		return nil, fmt.Errorf("there is no template %s", name)
	}
	return Parse(name, string(text))
}

// Open reads a template of the operator's.
func Open(path string) (*Template, error) {
	text, err := readTemplate(path)
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s cannot be read: %w", path, wrapped.Err)
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// readTemplate refuses a pipe, whose reader would wait for ever.
func readTemplate(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	return string(text), err
}
