from metapac.cli import main

main()
