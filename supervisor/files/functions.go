package files

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"text/template"
)

// functions returns what templates may call. Each of text/template's own that makes texts is there anew, with a bound:
// a template that doubles a text in a loop has all memory after some 40 steps.
func (t *Template) functions() template.FuncMap {
	r := t.run
	return template.FuncMap{
		stepFunction:  func() (string, error) { return "", r.step() },
		enterFunction: func() (string, error) { return "", r.enter() },
		leaveFunction: func() string { r.leave(); return "" },

		"services": func() []*Service { return r.from.services },
		"service":  func(name string) (*Service, error) { return r.from.service(name) },

		"json":       toJSON,
		"join":       join,
		"replace":    replace,
		"hasPrefix":  strings.HasPrefix,
		"hasSuffix":  strings.HasSuffix,
		"contains":   strings.Contains,
		"trimPrefix": strings.TrimPrefix,
		"trimSuffix": strings.TrimSuffix,
		"lower":      strings.ToLower,

		"print":    func(args ...any) (string, error) { return bounded(fmt.Sprint(args...)) },
		"println":  func(args ...any) (string, error) { return bounded(fmt.Sprintln(args...)) },
		"printf":   func(format string, args ...any) (string, error) { return bounded(fmt.Sprintf(format, args...)) },
		"html":     func(args ...any) (string, error) { return bounded(template.HTMLEscaper(args...)) },
		"js":       func(args ...any) (string, error) { return bounded(template.JSEscaper(args...)) },
		"urlquery": func(args ...any) (string, error) { return bounded(template.URLQueryEscaper(args...)) },
	}
}

// service returns the service of that name. One that nobody knows has no members: what names it must go on working.
func (s *snapshot) service(name string) (*Service, error) {
	switch {
	case s.byName[name] != nil:
		return s.byName[name], nil
	case !isServiceName(name):
		return nil, fmt.Errorf("%q is no name of a service: write NAME or PROJECT/NAME", clip(name))
	case !s.covers(name):
		return nil, fmt.Errorf("%s is not in the key services of the file", name)
	}
	return emptyService(name), nil
}

func bounded(s string) (string, error) {
	if len(s) > maxContent {
		return "", errTooLong
	}
	return s, nil
}

// toJSON writes a value as JSON. "<" stays what it is: nobody puts it into a web page.
func toJSON(value any) (string, error) {
	var b boundedBuffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// join writes the elements of a list with something between them.
func join(separator string, list any) (string, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return "", fmt.Errorf("join needs a list, not %T", list)
	}
	var b boundedBuffer
	for i := range v.Len() {
		if i > 0 {
			if _, err := b.WriteString(separator); err != nil {
				return "", err
			}
		}
		if _, err := b.WriteString(fmt.Sprint(v.Index(i).Interface())); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// replace replaces every old in s.
func replace(old, by, s string) (string, error) {
	if n := strings.Count(s, old); len(by) > len(old) && n > (maxContent-len(s))/(len(by)-len(old)) {
		return "", errTooLong
	}
	return strings.ReplaceAll(s, old, by), nil
}
