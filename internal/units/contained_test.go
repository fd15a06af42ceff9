// SPDX-License-Identifier: Apache-2.0

package units

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// systemctl show prints the command of each service.
func TestGatewaysIn(t *testing.T) {
	const text = `Id=a.service
ExecStart={ path=/usr/bin/mcpscope ; argv[]=/usr/bin/mcpscope gateway -- /bin/a ; ignore_errors=no ; start_time=[n/a] }

ExecStart={ path=/bin/b ; argv[]=/bin/b gateway -- mcpscope ; ignore_errors=no }
Id=b.service

Id=c.service

ExecStart={ path=/opt/mcpscope ; argv[]=mcpscope gateway x ; ignore_errors=yes }
Id=d.service
`
	if got, want := gatewaysIn(text), []string{"a.service", "d.service"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A remedy names what the service lacks.
func TestWhyUncontained(t *testing.T) {
	reason, remedy := whyUncontained(serviceOf())
	if reason != "its manager starts it without mcpscope" || remedy != "mcpscope units --unit g.service --install --now" {
		t.Errorf("a bare service: %q, %q", reason, remedy)
	}
	for _, c := range []struct {
		service    systemd.Service
		want, hint string
	}{
		{systemd.Service{Name: "g.service", User: "gw"}, "user gw may make no cgroup here", "add Delegate=yes"},
		{systemd.Service{Name: "g.service", ReadOnly: true}, "its control groups are read-only (ProtectControlGroups=yes)", "add ProtectControlGroups=no"},
		{systemd.Service{Name: "g.service", User: "g", DynamicUser: true}, "user g may make no cgroup here", "add Delegate=yes"},
	} {
		c.service.Commands = [][]string{{"/opt/mcpscope", "gateway", "--", "/bin/g"}}
		reason, remedy := whyUncontained(service{Service: c.service, Manager: systemd.System})
		if reason != c.want || !strings.Contains(remedy, c.hint) || strings.Contains(remedy, "linger") {
			t.Errorf("%+v: %q, %q", c.service, reason, remedy)
		}
	}
}
