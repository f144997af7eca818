# The commands of this checkout; scripts/ holds what they do. CMake does the building.
.PHONY: help demo test build install uninstall package packages-test bench soak interop docs clean

help:
	@echo 'make demo    install what is missing, build, and show weft at work'
	@echo 'make test    install what is missing, build, and run all tests'
	@echo 'make build   build/bin/weft, build/lib/libweft.so'
	@echo 'make install PREFIX=/usr/local; make uninstall removes it again; DESTDIR= as usual'
	@echo 'make package a tarball that runs wherever it is unpacked, and Debian packages:'
	@echo '             build/packages'
	@echo 'make packages-test  install and use the packages in bare systems, and remove them'
	@echo 'make bench   measure; the results also go to build/bench.json'
	@echo 'make soak    100,000 simulated worlds, stress tests, mistakes that tests have to notice,'
	@echo '             and a minute for each fuzz target'
	@echo 'make interop all programs of others that weft runs; writes docs/clients.md'
	@echo 'make docs    the pages and the reference of the headers as a site, build/docs/site'
	@echo 'make clean   remove build/'

demo test build package packages-test bench soak interop docs:
	@scripts/$@

install uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/$@

clean:
	rm -rf build
