package fleet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"healthd/e2e/patience"
)

// told returns nil when everything by which balancers learn who is ready says so of a replica of another host.
func (f *fleet) told(h *fleetHost, i int, ready bool) error {
	member, ways := fmt.Sprintf("shop/web/%s:%s", h.name, webName(i)), map[string]bool{}
	answer, err := f.askAgent(member)
	if err != nil {
		return err
	}
	ways["the agent check"] = strings.HasPrefix(answer, "up 100%")
	code, _, err := f.balancer.Get("/v1/ready/" + member)
	if err != nil {
		return err
	}
	ways["/v1/ready"] = code == http.StatusOK
	text, err := os.ReadFile(f.file)
	if err != nil {
		return err
	}
	ways["the file"] = strings.Contains(string(text), "server "+h.replica(i)+";")
	ports, err := f.askDNS()
	if err != nil {
		return err
	}
	ways["DNS"] = ports[h.replica(i)]
	for way, is := range ways {
		if is != ready {
			return fmt.Errorf("by %s, %s is ready: %v", way, member, is)
		}
	}
	return nil
}

func (f *fleet) askAgent(member string) (string, error) {
	conn, err := net.DialTimeout("tcp", f.balancer.address+":8647", patience.Limit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience.Limit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, member+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// askDNS returns the addresses with ports that DNS has for the service.
func (f *fleet) askDNS() (map[string]bool, error) {
	query := new(dns.Msg).SetQuestion("_http._tcp.web.shop.healthd.", dns.TypeSRV)
	answer, _, err := (&dns.Client{Net: "tcp", Timeout: patience.Limit}).Exchange(query, f.dns())
	if err != nil {
		return nil, err
	}
	hosts, all := map[string]string{}, map[string]bool{}
	for _, r := range answer.Extra {
		if a, ok := r.(*dns.A); ok {
			hosts[a.Hdr.Name] = a.A.String()
		}
	}
	for _, r := range answer.Answer {
		if s, ok := r.(*dns.SRV); ok {
			all[fmt.Sprintf("%s:%d", hosts[s.Target], s.Port)] = true
		}
	}
	return all, nil
}
