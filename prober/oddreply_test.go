package prober

import (
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	headOK      = "HTTP/1.1 200 OK\r\n"
	headChunked = headOK + "Transfer-Encoding: chunked\r\n"
)

var longWord = strings.Repeat("x", 5000) // more than fits into a buffer

// handWritten are replies in which HTTP parsers tend to differ.
var handWritten = []string{
	headOK + "Content-Length: 2\r\n\r\nok",
	headOK + "Content-Length: 2\r\n\r\nok and more",
	headOK + "Content-Length: 2\r\nConnection: close\r\n\r\nok",
	headOK + "Content-Length: 2\r\nConnection: a, CLOSE ,b\r\n\r\nok",
	headOK + "Content-Length: 2\r\nConnection: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\nok",
	headOK + "Content-Length: 2\r\nConnection: closed\r\n\r\nok",
	headOK + "Content-Length: 2\r\nConnection: \"close\"\r\n\r\nok",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nok",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, close\r\n\r\nok",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok",
	headOK + "\r\n" + strings.Repeat("x", MaxOutput+1),
	headOK + "Server : x\r\n\r\nok",
	headOK + "X Y: 1\r\n\r\nok",
	headOK + "Content-Length : 1\r\n\r\nok",
	headOK + "Transfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headOK + "A:\x01\r\n\r\nok",
	headOK + "A: b\x7f\r\n\r\nok",
	headOK + "A: b\x00\r\n\r\nok",
	headOK + "A: \xff\t\x80\r\n\r\nok",
	headOK + "A\x80: b\r\n\r\nok",
	headOK + "A: b\rc\r\n\r\nok",
	headOK + "A: b\r\r\n\r\nok",
	headOK + ": b\r\n\r\nok",
	headOK + " : b\r\n\r\nok",
	headOK + "A\r\n\r\nok",
	headOK + "A: b\r\n \r\n\r\nok",
	headOK + "A: b\r\n : c\r\n\r\nok",
	headOK + "A\r\n b: c\r\n\r\nok",
	headOK + "A: b\r\n\tc\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nok",
	headOK + "Content-Length: 2\r\n \r\n\r\nok",
	headOK + "Content-Length:\r\n 2\r\n\r\nok",
	headOK + "Transfer-Encoding: chunked\r\n \r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headOK + "Transfer-Encoding:\r\n chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headOK + "\r\r\n\r\nok",
	headOK + "\n\nok",
	headOK + "Content-Length: +2\r\n\r\nok",
	headOK + "Content-Length: 2, 2\r\n\r\nok",
	headOK + "Content-Length: 0x2\r\n\r\nok",
	headOK + "Content-Length: 002\r\n\r\nok",
	headOK + "Content-Length: 9223372036854775807\r\n\r\nok",
	headOK + "Content-Length: 9223372036854775808\r\n\r\nok",
	headOK + "Content-Length: 2\r\nContent-Length: 02\r\n\r\nok",
	headOK + "Content-Length: 2\r\nContent-Length:\t2 \r\n\r\nok",
	headOK + "A: " + longWord + "\r\n\r\nok",
	headOK + longWord + ": a\r\n\r\nok",
	"HTTP/1.1 200 " + longWord + "\r\n\r\nok",
	"HTTP/1.1" + strings.Repeat(" ", 5000) + "200 OK\r\n\r\nok",
	longWord + "\r\n\r\nok",
	"HTTP/1.1 200\n\nok",
	"HTTP/1.1  200 OK\r\n\r\nok",
	"HTTP/1.1 200\tOK\r\n\r\nok",
	"HTTP/1.1\t200 OK\r\n\r\nok",
	" HTTP/1.1 200 OK\r\n\r\nok",
	"\r\nHTTP/1.1 200 OK\r\n\r\nok",
	"http/1.1 200 OK\r\n\r\nok",
	"ICY 200 OK\r\n\r\nok",
	"HTTP/1.1 000 Zero\r\n\r\nok",
	"HTTP/1.1 -00 Zero\r\n\r\nok",
	"HTTP/1.1 +20 Plus\r\n\r\nok",
	"HTTP/1.1 -01 Minus\r\n\r\nok",
	"HTTP/1.1 099 Low\r\n\r\nok",
	"HTTP/1.1 2000 Long\r\n\r\nok",
	"HTTP/1.1 20 Short\r\n\r\nok",
	"HTTP/1.1 2x0 Odd\r\n\r\nok",
	"HTTP/1.1 199 Interim\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
	"HTTP/1.1 100 Interim\r\nTransfer-Encoding: gzip\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
	"HTTP/1.1 100 Interim\r\nContent-Length: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
	"HTTP/1.1 101 Switch\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\nok",
	"HTTP/1.1 204 Empty\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 204 Empty\r\nContent-Length: x\r\n\r\nok",
	"HTTP/1.1 204 Empty\r\nTransfer-Encoding: gzip\r\n\r\nok",
	"HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n\r\nok",
	"HTTP/0.9 200 OK\r\n\r\nok",
	"HTTP/0.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
	"HTTP/1.2 200 OK\r\n\r\nok",
	"HTTP/2.0 200 OK\r\n\r\nok",
	"HTTP/11 200 OK\r\n\r\nok",
	"HTTP/1.10 200 OK\r\n\r\nok",
	headChunked + "\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n",
	headChunked + "\r\n2\r\nok\r\n0\r\nA b: c\r\n\r\n",
	headChunked + "\r\n2\r\nok\r\n0\r\nnonsense\r\n\r\n",
	headChunked + "\r\n2\r\nok\r\n0\r\nA: b\n\n",
	headChunked + "\r\n2\r\nok\r\n0\r\n",
	headChunked + "\r\n2\r\nok\r\n0\r\nA: " + longWord + "\r\n\r\n",
	headChunked + "\r\n2\nok\n0\n\n",
	headChunked + "\r\n2;a=\"b\"\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n2 \t\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n 2\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n0x2\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n-2\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n2;" + longWord + "\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n2okxx0\r\n\r\n",
	headChunked + "\r\n00000000000000002\r\nok\r\n0\r\n\r\n",
	headChunked + "\r\n2800\r\n" + strings.Repeat("x", MaxOutput) + "xx0\r\n\r\n",
	headChunked + "Trailer: A\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n",
	headChunked + "Trailer: Content-Length\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headChunked + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headChunked + "Content-Length: x\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headOK + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	headOK + "Transfer-Encoding: identity\r\n\r\nok",
	headOK + "Transfer-Encoding:\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: /0\r\nContent-Length: 9\r\n\r\nfi",
	"HTTP/1.1 302 Found\r\nLocation: /0\r\nLocation: /5\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation:\r\nLocation: /0\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation : /0\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: /\r\n 0\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\n\r\nok",
	"HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /0\r\nTransfer-Encoding: chunked\r\n\r\nx",
	"HTTP/1.1 307 Again\r\nLocation: /" + longWord + "\r\n\r\n",
	"HTTP/1.1 300 Many\r\nLocation: /0\r\n\r\nok",
	"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nno",
	"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\nx",
	"",
	"H",
	"HTTP/1.1 200 OK",
	headOK,
	headOK + "A: b\r\n",
	headOK + "A: b\r\n\r",
}

// parts are what generated replies consist of.
var parts = struct{ versions, codes, reasons, names, colons, values, ends, bodies []string }{
	versions: []string{
		"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.0", "HTTP/0.9", "HTTP/1.2",
		"HTTP/2.0", "HTTP/1.", "HTTP/1,1", "http/1.1", "HTTP", "",
	},
	codes: []string{
		" 200", " 200", " 200", " 200", " 200", " 201", " 204", " 302", " 307", " 304", " 300", " 404",
		" 500", " 100", " 103", " 101", " 199", " 999", " 000", " 099", " +20", " -20", " 20", " 2000",
		"  200", "\t200", "200", "",
	},
	reasons: []string{
		" OK", " OK", " OK", "", " ", "  O K ", "\tOK", " \x00", " \xff", "OK",
	},
	names: []string{
		"Content-Length", "content-length", "CONTENT-LENGTH", "Transfer-Encoding", "transfer-encoding",
		"Trailer", "Location", "location", "Connection", "Upgrade", "Date", "Server", "X-A", "X Y",
		"Server ", " X", "\tX", "X\t", "", "a\x80", "a\x00b", "{}", "!#$%&'*+-.^_`|~", "Content-Length ",
		"Content_Length", "\u212aeep",
	},
	colons: []string{":", " :", ":\t", "", " "},
	values: []string{
		"0", "1", "2", "5", "2", "002", "+2", "-2", "2, 2", "0x2", "1e1", "10240", "10241",
		"9223372036854775807", "9223372036854775808", "chunked", "chunked", "Chunked", "gzip",
		"identity", "chunked, chunked", "/0", "/1", "/nowhere", "http://[", "http://example.invalid/",
		"ftp://example.invalid/", "//", "?", "close", "keep-alive", "Upgrade", "Content-Length", "X-A",
		"a", "", "a:b", "a b", "\x00", "\x7f", "\xff", "a\rb", "a\r", "a\r\n b", "\r\n 2", "2\r\n ",
		"chunked\r\n\t", "a\n\tb",
	},
	ends: []string{
		"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\r\n", "\r", "",
	},
	bodies: []string{
		"", "ok", "ok", "hello", "2\r\nok\r\n0\r\n\r\n", "2\r\nok\r\n0\r\n\r\n",
		"2\r\nok\r\n0\r\nX-A: b\r\n\r\n", "2;a=b\r\nok\r\n1 \r\nx\r\n0\r\n\r\n", "2\nok\n0\n\n",
		"2\r\nok0\r\n\r\n", "g\r\n", "ffffffffffffffff\r\nok", "fffffffffffffffff\r\n", "2\r\no",
		"0\r\nX\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"\r\n", "\n", " ok",
	},
}

// oddReplies returns the hand-written replies and n generated ones.
func oddReplies(n int) []string {
	replies := slices.Clone(handWritten)
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		replies = append(replies, oddReply(r))
	}
	return replies
}

func oddReply(r *rand.Rand) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	// Most replies have one oddity or two: with more, the first would hide the others.
	usually := func(odds int, usual string, list []string) string {
		if r.IntN(odds) > 0 {
			return usual
		}
		return pick(list)
	}
	var b strings.Builder
	for more := true; more; more = r.IntN(12) == 0 {
		b.WriteString(usually(8, "HTTP/1.1", parts.versions) + usually(3, " 200", parts.codes))
		b.WriteString(usually(8, " OK", parts.reasons) + usually(12, "\r\n", parts.ends))
		for range r.IntN(5) {
			name, value := usually(4, "X-A", parts.names), usually(2, "a", parts.values)
			if r.IntN(3) == 0 {
				// What a probe needs comes often.
				needed := [][2]string{{"Content-Length", "2"}, {"Transfer-Encoding", "chunked"}, {"Location", "/0"}}
				h := needed[r.IntN(len(needed))]
				name, value = h[0], usually(2, h[1], parts.values)
			}
			b.WriteString(name + usually(12, ": ", parts.colons) + value + usually(12, "\r\n", parts.ends))
		}
		b.WriteString(usually(20, "\r\n", parts.ends))
	}
	b.WriteString(pick(parts.bodies))
	return mutate(r, b.String())
}

// mutate cuts, doubles or replaces a few bytes of one reply in four.
func mutate(r *rand.Rand, s string) string {
	if len(s) == 0 || r.IntN(4) > 0 {
		return s
	}
	from := r.IntN(len(s))
	to := min(len(s), from+1+r.IntN(8))
	switch r.IntN(5) {
	case 0:
		return s[:from]
	case 1:
		return s[:from] + s[to:]
	case 2:
		return s[:to] + s[from:]
	case 3:
		return s[:from] + strings.Repeat(s[from:to], 1000) + s[to:]
	default:
		return s[:from] + string(byte(r.IntN(256))) + s[from+1:]
	}
}
