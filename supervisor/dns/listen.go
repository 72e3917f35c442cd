package dns

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Listeners are open for UDP and TCP on one address.
type Listeners struct {
	udp *net.UDPConn
	tcp *net.TCPListener
}

// Listen opens both, or none. With port 0 the kernel chooses one that is free for both.
func Listen(address string) (*Listeners, error) {
	const tries = 16
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		ls, err := listenOnce(address)
		if err == nil || port != "0" || try == tries || !errors.Is(err, syscall.EADDRINUSE) {
			return ls, err
		}
	}
}

func listenOnce(address string) (*Listeners, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := ln.(*net.TCPListener)
	at := tcp.Addr().(*net.TCPAddr)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err == nil {
		if err = answerFromWhereAsked(udp, at.IP); err == nil {
			const queue = 1 << 20
			_ = udp.SetReadBuffer(queue) // as far as the kernel allows
			return &Listeners{udp, tcp}, nil
		}
		udp.Close()
	}
	tcp.Close()
	return nil, err
}

// answerFromWhereAsked lets a listener on all addresses of the host know to which one a query went: clients take
// answers from there only.
func answerFromWhereAsked(conn *net.UDPConn, ip net.IP) error {
	if !ip.IsUnspecified() {
		return nil
	}
	err6 := ipv6.NewPacketConn(conn).SetControlMessage(ipv6.FlagDst, true)
	err4 := ipv4.NewPacketConn(conn).SetControlMessage(ipv4.FlagDst, true)
	if err6 != nil && err4 != nil { // it has one family, or both
		return err4
	}
	return nil
}

// Addr returns the address of both.
func (ls *Listeners) Addr() net.Addr { return ls.tcp.Addr() }

// Close closes both.
func (ls *Listeners) Close() {
	ls.udp.Close()
	ls.tcp.Close()
}
