# SPDX-License-Identifier: Apache-2.0
# nix profile install github:mcpscope/mcpscope builds and installs the newest commit.
{
  description = "Run MCP servers in control groups, and leave nothing of them behind";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    {
      packages = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: {
        default = nixpkgs.legacyPackages.${system}.callPackage ./packaging/nix/package.nix {
          commit = self.shortRev or "";
        };
      });
    };
}
