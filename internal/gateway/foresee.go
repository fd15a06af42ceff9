// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
)

// CheckCommand is the subcommand of the larger program that does `mcpscope gateway --check`.
const CheckCommand = "gateway-check"

// Foreseen is the decision of a watcher about a program that starts with pipes.
type Foreseen struct {
	Verdict Verdict
	Why     string
	Name    string // that it would get
}

// Foresee judges the command line of a server as if a gateway of that name started it. variables are those
// that the gateway sets for it.
func (r Rules) Foresee(argv []string, gateway string, variables map[string]string) Foreseen {
	verdict, why := r.Decide(Caller{Stdio: true, Argv: argv})
	made := recipe{argv: argv, variables: variables}
	why = r.whyNamed(r.entryOf(made, gateway), argv, why)
	return Foreseen{Verdict: verdict, Why: why, Name: r.serverName(made, gateway)}
}

// ForeseeEntry is Foresee for a configured server.
func (r Rules) ForeseeEntry(c *Configured, gateway string) Foreseen {
	return r.Foresee(c.Argv, gateway, c.Env)
}

// ForeseeCommand is Foresee without knowledge of the gateway: one that is configured is started by the client
// of that configuration.
func (r Rules) ForeseeCommand(argv []string) Foreseen {
	if known := r.Server(argv); known != nil {
		return r.Foresee(argv, known.Client, known.Env)
	}
	return r.Foresee(argv, "", nil)
}

// Conditions are the restrictions of a gateway that this process would become.
type Conditions struct {
	// NoNewPrivs: setuid programs do not work below it.
	NoNewPrivs bool
	// Blind: memory of its processes may not be read (yama).
	Blind bool
	// NoFilter is why no execve can be held here, or nil.
	NoFilter error
}

// OwnConditions returns those of the calling process.
func OwnConditions() Conditions {
	return Conditions{
		NoNewPrivs: NeedsNoNewPrivs(), Blind: !notify.MayReadMemory(), NoFilter: notify.CanInstall(),
	}
}
