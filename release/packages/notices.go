package main

import (
	"fmt"
	"strings"
)

// notices returns the texts that licenses want beside a binary. Modules with the same text share it.
func notices(modules []module) string {
	var order []string
	users := map[string][]string{}
	for _, m := range modules {
		for _, text := range m.texts {
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.path+" "+m.version)
		}
	}
	var b strings.Builder
	b.WriteString("healthd has parts of these Go modules (stdlib is Go's own library). Their licenses follow.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return b.String()
}
