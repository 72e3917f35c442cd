package haproxy

import (
	"context"
	"strings"
)

// Clients stick to a server by a cookie, which "show stat" shows of a backend, or by a stick table (stick on, stick
// match), which may stand in another backend than the one that uses it. At weight 0 HAProxy goes on to send such clients
// there. To a server that is down it sends none, unless it is told to (option persist), and requests under way go on.

// tables reads the names of an answer to "show table".
func tables(text string) (names []string) {
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, "# table: ")
		name, _, cut := strings.Cut(rest, ",")
		if is && cut && invalidCharacters(strings.Replace(name, "/", "", 1)) == "" { // PEERS/TABLE
			names = append(names, name)
		}
	}
	return names
}

// keepsServers says whether one of these tables keeps which server a client had. Others count requests. Without an
// operator the filter is refused before HAProxy reads the table, with what says whether there is such a column.
func (l *instance) keepsServers(ctx context.Context, tables []string) (bool, error) {
	var questions []string
	for _, name := range tables {
		questions = append(questions, "show table "+name+" data.server_id")
	}
	answers, err := l.query(ctx, questions)
	for _, answer := range answers {
		if strings.Contains(answer, "Require and operator among") {
			return true, nil
		}
	}
	return false, err
}
