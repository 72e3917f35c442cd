// Command man writes healthd's manual pages from the pages of docs/ that say the same:
// healthd(1) from commands.md, healthd.toml(5) from configuration.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// page is one manual page.
type page struct {
	name, section string
	is            string // what NAME says of it
	synopsis      string
	source        string // below docs/
	seeAlso       string
}

var pages = []page{
	{
		name: "healthd", section: "1", is: "supervise the health of the containers of a host",
		synopsis: "**healthd** COMMAND [ARGUMENT…] [FLAG…]", source: "commands.md",
		seeAlso: "healthd.toml(5), systemctl(1), docker(1)",
	},
	{
		name: "healthd.toml", section: "5", is: "configuration of healthd",
		synopsis: "/etc/healthd/healthd.toml, /etc/healthd/conf.d/\\*.toml", source: "configuration.md",
		seeAlso: "healthd(1)",
	},
}

func main() {
	docs := flag.String("docs", "../../docs", "read the pages in `DIR`")
	out := flag.String("out", ".", "write the manual pages to `DIR`")
	version := flag.String("version", "", "`VERSION` of healthd")
	flag.Parse()
	if err := writeAll(*docs, *out, *version, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func writeAll(docs, out, version, epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("cannot date the manual pages: SOURCE_DATE_EPOCH must be a number of seconds, it is %q", epoch)
	}
	date := time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("cannot write the manual pages: %w", err)
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(docs, p.source))
		if err != nil {
			return fmt.Errorf("cannot write %s(%s): %w", p.name, p.section, err)
		}
		md, err := p.markdown(string(text), version, date)
		if err != nil {
			return fmt.Errorf("cannot write %s(%s): %s: %w", p.name, p.section, p.source, err)
		}
		roff := laidOut(string(md2man.Render([]byte(md))))
		if err := os.WriteFile(filepath.Join(out, p.name+"."+p.section), []byte(roff), 0o644); err != nil {
			return fmt.Errorf("cannot write %s(%s): %w", p.name, p.section, err)
		}
	}
	return nil
}

var (
	title     = regexp.MustCompile(`(?m)^\.TH .*\n`)
	codeAfter = regexp.MustCompile(`(?m)^([^.\n].*\n)\n*\.EX\n`)
)

// laidOut mends what the renderer leaves to its reader's settings: no word is broken or line stretched, as
// many words are keys and paths; terms stand under each other whatever came before them; code does not belong to the term before it.
func laidOut(roff string) string {
	roff = strings.Replace(roff, ".nh\n", "", 1)
	roff = title.ReplaceAllString(roff, "${0}.nr HY 0\n.ad l\n")
	roff = strings.ReplaceAll(roff, "\n.TP\n", "\n.TP 8\n")
	return codeAfter.ReplaceAllString(roff, "$1.PP\n.EX\n")
}
