// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"fmt"
	"strings"
)

// mechanism is what protects a server's end, and what is in its place when it is taken out.
type mechanism struct {
	name  string
	edits []edit
	runs  []run // beside the common cells
	// kept says why it stays although none of them went red.
	kept string
}

// names of modes, ends and tests are alternatives of a regular expression.

// cells are those of the escape tables of the given backends.
func cells(backends, modes, ends string) run {
	return run{"test/e2e", fmt.Sprintf("^TestEscape(%s)$/^cells$/^(%s)$/^(%s)$", backends, modes, ends), true}
}

const (
	onCgroup = ""
	onTree   = "Tree"
	onBoth   = "|Tree"
)

// tests are named ones.
func tests(pkg, names string) run { return run{pkg, fmt.Sprintf("^Test(%s)$", names), false} }

// common are the cells that every mechanism is put to.
var common = cells(onBoth, strings.Join(commonModes, "|"), strings.Join(commonEnds, "|"))

var (
	commonModes = []string{"setsid", "dead-leader", "ignore-both", "stop-parent", "fork-bomb", "nested", "move-sibling"}
	commonEnds  = []string{"stdin", "kill", "superv"}
)

// faults is the fault table of the backend cgroup.
var faults = tests("test/fault", "Faults")

// kills is a part of it: guards that are killed at some system calls.
var kills = run{"test/fault", "^TestFaults$/^cgroup$/^(trace.*|at)$/^(launcher|supervisor)_e/^kill_", false}

const (
	lifecycle  = "scope/internal/lifecycle/"
	supervisor = "scope/internal/supervisor/"
	launcher   = "scope/internal/launcher/"
	group      = "scope/internal/group/"
)

// one is the change of a single text.
func one(file, old, new string) []edit { return []edit{{file, old, new}} }

func both(a, b []edit) []edit { return append(append([]edit(nil), a...), b...) }

var (
	noEscaped    = one(supervisor+"end.go", "s.reapEscaped()", "s.reap()")
	noTag        = one(group+"tag.go", "return freeze.NewTag(bits)", "return 0")
	noFreeze     = one("freeze/stop.go", "Freeze(s.Target)", "_ = Freeze")
	noCgroupKill = one("freeze/kill.go", "if g.Kill() == nil {", "if false {")
	noContinued  = one(lifecycle+"awake.go", "func ContinuedBy(fd int) (closed bool, err error) {", "func ContinuedBy(fd int) (closed bool, err error) {\n\treturn false, nil")
	noTimers     = one(lifecycle+"awake.go", "letsOut bool) {", "letsOut bool) {\n\treturn")
	anyOwner     = one("freeze/tag.go", "st.UID[savedID] == uid", "st.UID[savedID] >= 0")
	noSparing    = one(group+"tag.go", "Spare: inAnotherGroup(g.Top)", "Spare: nil")
	noDeadline   = one(launcher+"watch.go", "done, err = l.overdue()", "done, err = false, nil")
	noWake       = one(group+"launched.go", "_, _ = freeze.Signal(g.Supervisor, unix.SIGCONT)", "_, _ = freeze.Signal, unix.SIGCONT")
)

const stopping = "stop-parent|stop-parent-late|stop-parent-first|stop-parent-loop|trace-parent|pull-parent"

var mechanisms = []mechanism{
	// who sees that the server is to end
	{
		name:  "the supervisor's watch of the launcher",
		edits: one(supervisor+"supervisor.go", "s.lifecycle.End(protocol.LauncherGone)", "_ = protocol.LauncherGone"),
		runs:  []run{cells(onBoth, "plain|ignore-both", "killpg|tree|cgroup"), kills},
	},
	{
		name: "the launcher's watch of the supervisor",
		edits: []edit{
			{launcher + "launcher.go", "l.loop.Add(l.pidfd, lifecycle.TokenPeer)", "l.loop.Add(-1, lifecycle.TokenPeer)"},
			{launcher + "receive.go", "if closed {\n\t\treturn true, l.supervisorDied()", "if closed {\n\t\treturn false, nil"},
		},
		runs: []run{cells(onBoth, "kill-parent", "stdin|TERM|superv"), kills},
	},
	{
		name:  "the watch of stdin",
		edits: one(lifecycle+"client.go", "in.Stdin.FD(): TokenStdin", "-1: TokenStdin"),
		runs:  []run{cells(onBoth, "plain|ignore-eof", "stdin|client|exit")},
	},
	{
		name:  "the watch of stdout",
		edits: one(lifecycle+"client.go", "in.Stdout.FD(): TokenStdout", "-2: TokenStdout"),
		runs:  []run{tests("test/e2e", "ClosedStdoutEndsTheServer")},
	},
	{
		name:  "the wait for unread input",
		edits: one(lifecycle+"client.go", "func (in *ClientSide) unread() bool {", "func (in *ClientSide) unread() bool {\n\treturn false"),
		runs:  []run{tests("test/e2e", "UnreadInput.*")},
	},
	{
		name:  "the wait for a client that reads late",
		edits: one(lifecycle+"client.go", "func (in *ClientSide) blocked() bool {", "func (in *ClientSide) blocked() bool {\n\treturn false"),
		runs:  []run{tests("test/e2e", "AnswerToAClientThatReadsLate")},
	},
	{
		name:  "the client's pidfd",
		edits: one(lifecycle+"client.go", "parent := os.Getppid()", "parent := min(os.Getppid(), 1)"),
		runs:  []run{cells(onCgroup, "plain|ignore-eof", "client|exit|tree"), tests("test/e2e", "ClientDies.*")},
	},
	// who is a member
	{
		name:  "the subreaper",
		edits: one(lifecycle+"init.go", "PR_SET_CHILD_SUBREAPER, 1,", "PR_SET_CHILD_SUBREAPER, 0,"),
		runs:  []run{cells(onBoth, "double-fork|hop|move-main|move-leaving", "stdin|kill")},
	},
	{
		name:  "the sweep by pidfd of who left the group",
		edits: noEscaped,
		runs:  []run{cells(onCgroup, "nested|move-.*", "stdin|kill"), tests("test/e2e", "NestedRun")},
	},
	{
		name:  "the inherited tag",
		edits: noTag,
		runs:  []run{cells(onCgroup, "move-.*", "stdin|kill|superv"), tests("test/e2e", "MemberInAForeignPidNamespace|UsurpedGroups"), tests("test/gateway", "SweepFindsWhoMovedAway|TagDropped")},
	},
	{
		name:  "the sweep by pidfd and the inherited tag",
		edits: both(noEscaped, noTag),
		runs:  []run{cells(onCgroup, "move-.*", "stdin|kill|superv")},
	},
	{
		name:  "the patience with nested supervisors",
		edits: one(supervisor+"escaped.go", "e.killed[pid] || e.spared(pid)", "e.killed[pid]"),
		runs:  []run{tests("test/e2e", "NestedRun")},
	},
	{
		name:  "the guard of a tree",
		edits: one(supervisor+"guard.go", "if childless() {", "if s.exited || childless() {"),
		runs:  []run{cells(onTree, "double-fork|hop|kill-parent|move-main", "superv|stdin")},
	},
	{
		name:  "the pipe by which a guard sees a traced supervisor's death",
		edits: one(supervisor+"guard.go", "protocol.WakeEvery)\n\t\t\ts.exited = true", "protocol.WakeEvery)"),
		runs:  []run{cells(onTree, "trace-parent", "superv"), tests("test/e2e", "TracedSupervisorIsKilled")},
	},
	{
		name:  "the guard's deadline",
		edits: one(supervisor+"guard.go", "late.begin(s.config.Policy)", "_ = late.begin"),
		runs:  []run{cells(onTree, stopping, "kill|killpg|tree")},
	},
	{
		name:  "the supervisor's way out of the payload",
		edits: one(group+"owned.go", "leaf, err := p.top.MkdirOpen(protocol.SupervisorName, GroupMode) // it can have been removed as well\n\tif err != nil {", "leaf, err := p.top.MkdirOpen(protocol.SupervisorName, GroupMode)\n\tif true || err != nil {"),
		runs:  []run{cells(onCgroup, "pull-parent", "stdin|TERM|kill|tree|superv")},
	},
	{
		name:  "the supervisor in nobody's process tree",
		edits: one(launcher+"launcher.go", "Group: group, Detach: true,", "Group: group, Detach: false,"),
		runs:  []run{cells("|Tree|WithoutCgroupKill", "plain|ignore-both", "tree|killpg|cgroup"), tests("test/e2e", "TransparentEnds")},
	},
	// the kill
	{
		name:  "the freeze before the kill",
		edits: noFreeze,
		runs:  []run{cells("|Tree|WithoutCgroupKill", "hop|hop-storm|fork-bomb|pairs|fork-on-term", "stdin"), tests("test/e2e", "NobodyWitnessesTheKill")},
	},
	{
		name:  "cgroup.kill",
		edits: noCgroupKill,
		runs:  []run{cells(onBoth, "hop|hop-storm|fork-bomb|pairs|children-2000", "stdin")},
		kept:  "one write ends all at once, whatever they fork; the kill by pidfd takes rounds for that",
	},
	{
		name:  "cgroup.kill and the freeze",
		edits: both(noCgroupKill, noFreeze),
		runs:  []run{cells(onBoth, "hop|hop-storm|fork-bomb|pairs|children-2000", "stdin")},
		kept:  "the kill by pidfd, in rounds, is enough for these cells; NobodyWitnessesTheKill needs the freeze",
	},
	{
		name:  "SIGKILL by pidfd beside cgroup.kill",
		edits: one("freeze/kill.go", "reached, signalErr := Signal(g, unix.SIGKILL)", "reached, signalErr := Signal(g, unix.Signal(0))"),
		runs:  []run{cells(onCgroup, "dead-leader-main|threaded|frozen", "stdin|kill"), tests("test/e2e", "FrozenByVersion1")},
	},
	{
		name:  "the kill at home, of a tree",
		edits: one("freeze/end.go", "pass < homePasses &&", "pass < 0 &&"),
		runs:  []run{tests("freeze", "HoppersAreKilled"), cells(onTree, "hop|hop-storm|fork-bomb|pairs", "stdin|TERM|kill|superv")},
		kept:  "for machines on which each list of the members is too old; these cells were not that hard",
	},
	{
		name:  "the way out of a frozen group of version 1",
		edits: one("freeze/kill.go", "leaveFreezer1(g)", "_ = leaveFreezer1"),
		runs:  []run{tests("test/e2e", "FrozenByVersion1")},
	},
	{
		name:  "the thaw before the asking",
		edits: one("freeze/stop.go", "_ = s.Target.Thaw()", "_ = s"),
		runs:  []run{tests("freeze", "AskReachesWhoIsFrozenOrStopped")},
	},
	{
		name:  "SIGCONT after the asking",
		edits: one("freeze/stop.go", "Signal(s.Target, s.Ask, unix.SIGCONT)", "Signal(s.Target, s.Ask)"),
		runs:  []run{tests("freeze", "AskReachesWhoIsFrozenOrStopped")},
	},
	// whom nothing may happen to
	{
		name:  "the second look at who is a member",
		edits: one("freeze/signal.go", "open && member && send(fd, sigs)", "open && (member || true) && send(fd, sigs)"),
		runs:  []run{tests("freeze", "SignalSparesWhoIsNoMember")},
	},
	{
		name:  "the owner of who carries a tag",
		edits: anyOwner,
		runs:  []run{tests("test/e2e", "Forged.*"), tests("freeze", ".*")},
		kept:  "the sparing of other servers does the same for these tests: see the two together",
	},
	{
		name:  "the sparing of other servers with the same tag",
		edits: noSparing,
		runs:  []run{tests("test/e2e", "Forged.*"), tests("test/gateway", "Forged.*")},
		kept:  "the owner does the same for these tests: see the two together",
	},
	{
		name:  "the owner and the sparing, of a tag",
		edits: both(anyOwner, noSparing),
		runs:  []run{tests("test/e2e", "Forged.*"), tests("test/gateway", "Forged.*")},
	},
	// a guard that is held
	{
		name:  "SIGCONT by the control socket",
		edits: noContinued,
		runs:  []run{cells(onBoth, stopping, "stdin|TERM|kill|tree|client")},
	},
	{
		name:  "the SIGCONT timers",
		edits: noTimers,
		runs:  []run{cells(onBoth, stopping, "kill|tree|killpg")},
	},
	{
		name:  "SIGCONT by the control socket and the timers",
		edits: both(noContinued, noTimers),
		runs:  []run{cells(onBoth, stopping, "kill|tree|killpg")},
	},
	{
		name:  "the launcher's deadline",
		edits: noDeadline,
		runs:  []run{cells(onBoth, stopping, "stdin|TERM|client"), tests("test/e2e", "SupervisorHeldBeforeItsFirstWord")},
	},
	{
		name:  "the launcher's own SIGCONT",
		edits: noWake,
		runs:  []run{cells(onBoth, stopping, "stdin|TERM|client")},
	},
	{
		name:  "tracers kept off",
		edits: one(lifecycle+"awake.go", "unix.PR_SET_DUMPABLE, 0,", "unix.PR_SET_DUMPABLE, 1,"),
		runs:  []run{tests("test/e2e", "LauncherKeepsTracersOff"), {"test/systemd", "^TestEscape$/^tester$/^cells$/^trace-parent$/^(stdin|kill)$", true}},
	},
	{
		name:  "the check of the supervisor's last word",
		edits: one(launcher+"receive.go", "err := l.verify()", "err := error(nil)"),
		runs:  []run{tests("scope/internal/launcher", "LastWordIsChecked")},
	},
	// processes, descriptors and messages
	{
		name:  "timers that are ready",
		edits: one(lifecycle+"timers.go", "func ReadyTimers() error {", "func ReadyTimers() error {\n\treturn nil"),
		runs:  []run{tests("test/e2e", "FewDescriptors|SupervisorWithoutDescriptors"), faults},
	},
	{
		name:  "threads in reserve",
		edits: one(lifecycle+"threads.go", "range threadsInReserve {", "range 0 * threadsInReserve {"),
		runs:  []run{tests("test/e2e", "ServerThatUsesUpAllProcesses|FewProcesses")},
	},
	{
		name:  "the refusal of too few processes",
		edits: one(lifecycle+"threads.go", "func EnoughTasks() error {", "func EnoughTasks() error {\n\treturn nil"),
		runs:  []run{tests("test/e2e", "FewProcesses")},
	},
	{
		name: "a control socket for each direction",
		edits: one("scope/internal/protocol/control.go", "*way[0], *way[1] = fds[0], fds[1]", `*way[0], *way[1] = fds[0], fds[1]
		ours.In, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		theirs.Out, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_DUPFD_CLOEXEC, 0)
		break`),
		runs: []run{faults, tests("test/e2e", "StopAtOnceIsHeard"), tests("test/script", "Scripts")},
	},
	{
		name:  "who stands by until there is a supervisor",
		edits: one("internal/spawn/standby.go", "func killGroup(s *standby) {", "func killGroup(s *standby) {\n\traw.Exit(0)"),
		runs:  []run{kills, cells(onCgroup, stopping, "kill|killpg|tree"), tests("internal/spawn", "StandbyKills|StandbyRemovesWhatIsEmpty")},
	},
	{
		name:  "a stop that waits for a supervisor which is only starting",
		edits: one(launcher+"launcher.go", "l.config.Mask | 1<<(protocol.StopSignal-1)", "l.config.Mask"),
		runs:  []run{tests("test/e2e", "StopAtOnceIsHeard|StopMeetsAStart")},
	},
	// the group
	{
		name:  "the copy that removes the group",
		edits: one(group+"owned.go", "_ = r.Start()", "_ = r"),
		runs:  []run{cells(onCgroup, "plain", "kill|killpg|tree|cgroup")},
	},
	{
		name:  "the lock of the group",
		edits: one(group+"group.go", "if err = g.Payload.TryLock(unix.LOCK_EX); err != nil {", "if err != nil {"),
		runs:  []run{tests("test/e2e", "Sweep.*|Squatted.*|NextServer.*")},
	},
	{
		name:  "the mark of an armed group",
		edits: one(group+"group.go", "{AttrArmed, fmt.Sprint(protocol.ProtocolVersion)},", "{\"user.mcpscope.unused\", fmt.Sprint(protocol.ProtocolVersion)},"),
		runs:  []run{tests("test/e2e", "Sweep.*|NextServer.*|UsurpedGroups")},
	},
	{
		name:  "the sweep at the start of a server",
		edits: one("scope/internal/sweep/sweep.go", "if parent == nil {\n\t\treturn func() {}", "if true {\n\t\treturn func() {}"),
		runs:  []run{tests("test/e2e", "NextServer.*|UsurpedGroups")},
	},
	{
		name:  "the mark of a scope that no manager has been asked for",
		edits: one(group+"scope.go", "return err != nil || said != unasked", "return err != nil || said != \"\" || true"),
		runs:  []run{tests("test/systemd", "LauncherKilledWhileItAsks")},
	},
	{
		name:  "the removal of a scope that was only asked for",
		edits: one(group+"owned.go", "case !g.LeftToManager() || g.OnlyAsked():", "case !g.LeftToManager():"),
		runs:  []run{tests("test/systemd", "LauncherKilledWhileItAsks")},
	},
	{
		name:  "the stirring of a scope that was empty before it was one",
		edits: one("scope/internal/backend/adopter.go", "\t\t\tstir(g, conn)", "\t\t\t_ = stir"),
		runs:  []run{tests("test/fault", "ScopeOfTheDead")},
	},
	{
		name:  "the removal of a scope whose end its manager misses",
		edits: one("scope/internal/sweep/orphan.go", "return s, g.Parent.Remove(g.Dir)\n\t}\n", "return s, nil\n\t}\n"),
		runs:  []run{tests("scope/internal/sweep", "SweepOfAScopeWhoseEndIsMissed")},
	},
	{
		name:  "the same, when the server that sweeps ends",
		edits: one("scope/internal/sweep/orphan.go", "\t\tg.RemoveLate()\n", ""),
		runs:  []run{tests("scope/internal/sweep", "BriefSweepOfAScopeWhoseEndIsMissed")},
	},
	{
		name:  "BindsTo= of a scope",
		edits: one("internal/systemd/scope.go", "all = append(all, dbus.PropBindsTo(s.Client))", "_ = dbus.PropBindsTo"),
		runs:  []run{tests("test/systemd", "ScopeEndsWhenItsClientsUnitCrashes|UnitStopEndsAnOrphan")},
	},
	{
		name:  "the start of a scope without its dependencies",
		edits: one("internal/systemd/scope.go", "mode = \"ignore-dependencies\"; !runs", "mode = failing; !runs"),
		runs:  []run{tests("test/systemd", "ServerStartedWhileItsClientsUnitStops|ScopeIsAskedForAfterTheCrash")},
	},
	{
		name:  "the question whether the unit runs that a scope is bound to",
		edits: one("internal/systemd/scope.go", "return state != \"inactive\" && state != \"failed\", err", "_ = state\n\treturn true, err"),
		runs:  []run{tests("test/systemd", "ScopeIsAskedForAfterTheCrash|ClientIsInAScopeThatNoManagerKnows")},
	},
	{
		name:  "the slice that is started for a scope",
		edits: one("internal/systemd/scope.go", "manager+\".StartUnit\", 0, s.Slice, failing", "manager+\".GetDefaultTarget\", 0"),
		runs:  []run{tests("test/systemd", "ManagerRefusesAScope")},
	},
	{
		name:  "Before= of a scope",
		edits: one("internal/systemd/scope.go", "all = append(all, dbus.PropBefore(s.Client))", "_ = dbus.PropBefore"),
		runs:  []run{tests("test/systemd", "ScopeEndsAfterItsClientsUnit")},
	},
	{
		name:  "KillSignal= of a scope",
		edits: one("internal/systemd/scope.go", "property(\"KillSignal\", int32(s.KillSignal)),", ""),
		runs:  []run{tests("test/systemd", "ScopeEnds.*|StopOfTheScope")},
	},
	// what the server can tell
	{
		name:  "job control",
		edits: one(launcher+"receive.go", "l.stopToo(unix.Signal(m.Signal))", "_ = unix.Signal(m.Signal)"),
		runs:  []run{tests("test/e2e", "TerminalJobControl|TerminalFullScreen")},
	},
	{
		name: "the client's descriptors closed",
		edits: []edit{
			{launcher + "launcher.go", "_ = linux.ReplaceByNull(0, 1)", "_ = linux.ReplaceByNull"},
			{supervisor + "start.go", "_ = linux.ReplaceByNull(0, 1, 2)", "_ = linux.ReplaceByNull"},
		},
		runs: []run{tests("test/e2e", "OnlyTheServerHoldsItsDescriptors|TransparentHolders|TransparentEnds")},
	},
}
