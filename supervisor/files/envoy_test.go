package files

import (
	"testing"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// What Envoy gets is what its own definitions say, which it also validates.
func TestEnvoyFormat(t *testing.T) {
	var got discovery.DiscoveryResponse
	if err := protojson.Unmarshal([]byte(mustRender(t, mustShip(t, "envoy"), sample())), &got); err != nil {
		t.Fatal(err)
	}
	if err := got.ValidateAll(); err != nil || got.VersionInfo != sample().version() {
		t.Errorf("version %q, %v", got.VersionInfo, err)
	}
	ready := map[string][]string{}
	for _, resource := range got.Resources {
		var of endpoint.ClusterLoadAssignment
		if err := resource.UnmarshalTo(&of); err != nil {
			t.Fatal(err)
		}
		if err := of.ValidateAll(); err != nil {
			t.Error(err)
		}
		ready[of.ClusterName] = []string{}
		for _, locality := range of.Endpoints {
			for _, e := range locality.LbEndpoints {
				at := e.GetEndpoint().GetAddress().GetSocketAddress()
				ready[of.ClusterName] = append(ready[of.ClusterName], at.GetAddress())
			}
		}
	}
	if len(ready) != 5 || len(ready["shop/web"]) != 3 || len(ready["blog/api"]) != 1 || ready["blog/api"][0] != "fd00::2" || len(ready["shop/old"]) != 0 {
		t.Errorf("got %v", ready)
	}
	if err := protojson.Unmarshal([]byte(mustRender(t, mustShip(t, "envoy"), snapshotOf(nil, everything, nil))), &got); err != nil || len(got.Resources) != 0 {
		t.Errorf("of an empty host: %v, %v", got.Resources, err)
	}
}
