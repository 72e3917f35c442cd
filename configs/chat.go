package configs

import (
	"net/url"
	"slices"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
)

// ChatSchemes returns the schemes that url may have, sorted: those of shoutrrr.
func ChatSchemes() []string {
	return slices.Sorted(slices.Values((&router.ServiceRouter{}).ListServices()))
}

// readsChatURL says whether shoutrrr finds in a URL what its service needs. It asks nobody. What shoutrrr says of a URL
// repeats parts of it, so that is kept to itself.
func readsChatURL(u url.URL) (ok bool) {
	defer func() {
		if recover() != nil { // shoutrrr reads what people have written
			ok = false
		}
	}()
	if u.Scheme == "matrix" {
		password, _ := u.User.Password()
		u.User = url.UserPassword("", password) // with a name it would log in
	}
	_, err := (&router.ServiceRouter{}).Locate(u.String())
	return err == nil
}
