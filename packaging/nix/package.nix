# SPDX-License-Identifier: Apache-2.0
# Builds mcpscope from its sources. A test compares version with the changelog, and vendorHash with the modules of go.mod.
{
  lib,
  buildGoModule,
  commit ? "",
}:
buildGoModule rec {
  pname = "mcpscope";
  version = "0.1.0";
  src = lib.cleanSource ../..;
  vendorHash = "sha256-421aa7F4hUbDGhoAk+Pxc2l+QCX5K5IaB3QKSjjD7us=";

  buildPhase = ''
    runHook preBuild
    make build VERSION=v${version} COMMIT=${commit}
    runHook postBuild
  '';

  # The tests make control groups and boot a systemd, which a build may not do.
  doCheck = false;

  installPhase = ''
    runHook preInstall
    PREFIX=$out packaging/install bin
    runHook postInstall
  '';

  meta = {
    description = "Run MCP servers in control groups, and leave nothing of them behind";
    homepage = "https://github.com/mcpscope/mcpscope";
    license = lib.licenses.asl20;
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    mainProgram = "mcpscope";
  };
}
