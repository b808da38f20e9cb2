"""The command line for people: `stowage demo | simulate | explain | snapshot | crds`."""
