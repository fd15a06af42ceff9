// SPDX-License-Identifier: Apache-2.0

package ablation

// promises breaks each promise once. Its name is the one in test/escape/core.txt, and the core is red without it: a
// package runs here what make test runs of it.
var promises = []mechanism{
	without("survives", one(guard+"guard.go", "\tcase dead:\n\t\tg.launcherDied()\n", "\tcase dead:\n\t\texit(0)\n"),
		core("test/kills"), core("test/e2e"), core("test/script")),
	without("bystander", one("internal/server/orphan/orphan.go",
		"\tif err == nil {\n\t\treturn Orphan, nil", "\tif err == nil || why == ToStop {\n\t\treturn Orphan, nil"),
		core("test/script"), core("test/systemd")),
	without("honest", both(
		one(guard+"place.go", "\te = setLimits(payload, &p.page.Plan.Limits, failed, &p.buf)\n", "\te = 0\n"),
		one("internal/server/backend/manager.go", "\t\t\treturn \"\", group.LimitError(l, err)\n", "\t\t\tcontinue\n")),
		core("test/week"), core("test/script")),
	without("transparent", one(guard+"launcher.go", "\t\tl.Signals.stopToo(sig)\n", "\t\t_ = sig\n"), core("test/e2e")),
	without("roof", one("internal/server/roof/roof.go", "\t\t\treturn Elsewhere, \"\"\n\t\t}\n\t}\n", "\t\t\treturn LoginSession, \"\"\n\t\t}\n\t}\n"),
		core("test/systemd")),
	without("standalone", one("cmd/mcpscope/main.go", "\t\tcase \"run\":\n",
		"\t\tcase \"run\":\n\t\t\tif _, err := programs.FindTool(); err != nil {\n\t\t\t\treturn alone(args, err, io)\n\t\t\t}\n"),
		core("test/script")),
	without("visible", one(helper+"settle.go", "\t\ts.logStart()\n", ""), core("test/journal")),
	without("idle", one(idle+"policy.go", "if isSame && usage.Tied == ", "if false && isSame && usage.Tied == "), core("test/e2e")),
}

// core is what make test runs of a package.
func core(pkg string) run { return run{pkg: pkg, core: true} }
