// SPDX-License-Identifier: Apache-2.0

package roof

import "testing"

// The surroundings of a client of user 1000 decide, and not the managers within its reach.
func TestFind(t *testing.T) {
	const user = "/user.slice/user-1000.slice"
	const manager = user + "/user@1000.service"
	for _, c := range []struct {
		name, client, init string
		where              Where
		manager            string
	}{
		{"a unit of the user", manager + "/app.slice/code.scope", "/init.scope", BelowManager, manager},
		{"a server of the user", manager + "/mcp.slice/mcp-a-0234abcd.scope/payload", "/init.scope", BelowManager, manager},
		{"the manager itself", manager + "/init.scope", "/init.scope", BelowManager, manager},
		{"a session", user + "/session-3.scope", "/init.scope", LoginSession, ""},
		{"a cron session, with a group in it", user + "/session-c1.scope/job", "/init.scope", LoginSession, ""},
		{"hidepid", user + "/session-3.scope", "", LoginSession, ""},
		{"in a sandbox with a PID 1", user + "/session-3.scope", user + "/session-3.scope", LoginSession, ""},
		{"su from root's session", "/user.slice/user-0.slice/session-3.scope", "/init.scope", Elsewhere, ""},
		{"below another user's manager", "/user.slice/user-1001.slice/user@1001.service/a.scope", "/init.scope", Elsewhere, ""},
		{"a system service with User=", "/system.slice/gw.service", "/init.scope", Elsewhere, ""},
		{"an instance of one", "/system.slice/system-gw.slice/gw@1000.service", "/init.scope", Elsewhere, ""},
		{"cron without a session", "/system.slice/cron.service", "/init.scope", Elsewhere, ""},
		{"a service in the user's slice", user + "/gw.service", "/init.scope", Elsewhere, ""},
		{"the runtime directory's service", user + "/user-runtime-dir@1000.service", "/init.scope", Elsewhere, ""},
		{"a batch job", "/system.slice/slurmstepd.scope/job_1/step_0/user", "/init.scope", Elsewhere, ""},
		{"names that a service can make", "/system.slice/gw.service" + manager, "/init.scope", Elsewhere, ""},
		{"a container", "/docker/0a1b", "/init.scope", Elsewhere, ""},
		{"the root", "/", "/init.scope", Elsewhere, ""},
		{"a slice", user, "/init.scope", Elsewhere, ""},
		{"no cgroup", "", "/init.scope", Elsewhere, ""},
		{"in a machine", "/machine.slice/m.service" + manager + "/a.scope", "/machine.slice/m.service/init.scope",
			BelowManager, "/machine.slice/m.service" + manager},
		{"a machine, from outside", "/machine.slice/m.service" + manager + "/a.scope", "/init.scope", Elsewhere, ""},
		{"the manager outside of the namespace", manager + "/a.scope", "/../../init.scope", Elsewhere, ""},
	} {
		where, got := Find(c.client, c.init, 1000)
		if where != c.where || got != c.manager {
			t.Errorf("%s: %d, %q; want %d, %q", c.name, where, got, c.where, c.manager)
		}
	}
	if where, _ := Find("/user.slice/user-0.slice/session-1.scope", "/init.scope", 0); where != LoginSession {
		t.Errorf("root's own session: %d", where)
	}
}

// The name of the scope has the name of the node where that runs several daemons, or where Debian built it.
func TestInJob(t *testing.T) {
	for client, want := range map[string]bool{
		"/system.slice/slurmstepd.scope/job_1/step_0/user/task_0":           true,
		"/system.slice/node_slurmstepd.scope/job_17/step_batch/user/task_0": true,
		"/system.slice/slurmstepd.scope/system":                             false,
		"/system.slice/slurmd.service":                                      false,
		"/user.slice/user-0.slice/session-1.scope":                          false,
		"/": false,
	} {
		if got := InJob(client); got != want {
			t.Errorf("%s: %v", client, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("/user.slice/user-1000.slice/user@1000.service/a", "/init.scope")
	f.Fuzz(func(t *testing.T, client, init string) {
		where, manager := Find(client, init, 1000)
		if (where == BelowManager) != (manager != "") || len(manager) > len(client) {
			t.Fatalf("%d, %q", where, manager)
		}
	})
}
