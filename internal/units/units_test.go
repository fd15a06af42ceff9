// SPDX-License-Identifier: Apache-2.0

package units

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

const exe = "/opt/mcpscope"

var both = Programs{exe, exe + "ctl"}

func gatewayOf(programs Programs) File {
	f, _ := dropIn(serviceOf(fragment("ExecStart=/usr/bin/hermes run\n")), programs) // see TestDropIn
	return f
}

func TestEveryUnitNamesTheExecutable(t *testing.T) {
	for _, m := range []systemd.Kind{systemd.System, systemd.User} {
		var names []string
		for _, f := range append(OwnFiles(m, both), gatewayOf(both)) {
			names = append(names, f.Name)
			runs := strings.Contains(f.Name, ".service")
			if strings.Contains(f.Text, "abstract socket") { // mcpscope does not use one
				t.Errorf("%s: %s", f.Name, f.Text)
			}
			if strings.Contains(f.Text, "@MCPSCOPE") || strings.Contains(f.Text, exe+" ") != runs {
				t.Errorf("%s: %s", f.Name, f.Text)
			}
		}
		if want := []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer", "g.service.d/zz-mcpscope.conf"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
	}
}
