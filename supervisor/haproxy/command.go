package haproxy

import (
	"fmt"
	"net/netip"
	"strings"
)

// command is one line for HAProxy, and which answers mean success.
type command struct {
	text    string
	subject string // "BACKEND/SERVER"
	accepts func(answer string) bool
}

func (p *plan) command(text string, s *server, fine func(string) bool) {
	p.commands = append(p.commands, command{text, s.key(p.backend), fine})
}

func (p *plan) set(s *server, what string) {
	p.command("set server "+s.key(p.backend)+" "+what, s, isSilent)
}

func (p *plan) setAddress(s *server, address netip.Addr, port int) {
	p.command(fmt.Sprintf("set server %s addr %s port %d", s.key(p.backend), address, port), s, isMoved)
}

// The answers that mean success. Every other answer is reported as an error.

func isSilent(answer string) bool { return answer == "" }

func isText(want string) func(string) bool {
	return func(answer string) bool { return answer == want }
}

func isMoved(answer string) bool {
	if answer == "nothing changed" { // HAProxy 3.0
		return true
	}
	fine := strings.HasPrefix(answer, "IP changed from ") || strings.HasPrefix(answer, "no need to change ") || strings.HasPrefix(answer, "port changed from ")
	return fine && strings.HasSuffix(answer, "by 'stats socket command'")
}

// isDeleted also accepts that a client is still connected: the next sync tries again.
func isDeleted(answer string) bool {
	return answer == "Server deleted." || strings.HasPrefix(answer, "Server still has connections attached to it")
}
