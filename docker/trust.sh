#!/bin/sh
# Runs once before the agent, in the agent's own image: what the agent shall trust is the image's roots plus the session's CA.
# In:  /ca (ca.crt, truststore.p12: the sidecar's public part).  Out: /sallyport and /certs, both read-only in the agent.
set -eu

fail() { echo "trust: $*" >&2; exit 1; }

[ -s /ca/ca.crt ] || fail 'the sidecar has left no ca.crt'

roots=
for file in \
  /etc/ssl/certs/ca-certificates.crt \
  /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem \
  /etc/pki/tls/certs/ca-bundle.crt \
  /var/lib/ca-certificates/ca-bundle.pem \
  /etc/ssl/ca-bundle.pem \
  /etc/ssl/cert.pem
do
  if [ -s "$file" ]; then roots=$file; break; fi
done

# Written aside and renamed: an agent that is running already never reads half a file.
put() { cat >"$1.new" && chmod 0644 "$1.new" && mv -f "$1.new" "$1"; }

bundle() {
  if [ -n "$roots" ]; then cat "$roots"; echo; fi
  cat /ca/ca.crt
}

# The directory as the image has it (hashed links, Java's store), links resolved because their targets lie elsewhere.
if [ -d /etc/ssl/certs ]; then
  for entry in /etc/ssl/certs/*; do
    if [ -e "$entry" ]; then cp -RL "$entry" /certs/; fi
  done
fi
# One volume serves every distribution: each looks for its own name in its own folder.
for name in ca-certificates.crt ca-bundle.crt tls-ca-bundle.pem ca-bundle.pem; do bundle | put "/certs/$name"; done

bundle | put /sallyport/bundle.crt
put /sallyport/ca.crt </ca/ca.crt

# With a JVM in the image its own store is kept and ours added; else a store with ours alone.
store=
if command -v keytool >/dev/null 2>&1; then
  for file in "${JAVA_HOME:-/nonexistent}/lib/security/cacerts" /etc/ssl/certs/java/cacerts /etc/pki/java/cacerts; do
    if [ -s "$file" ]; then store=$file; break; fi
  done
fi
rm -f /sallyport/truststore.new
if [ -n "$store" ] \
  && keytool -importkeystore -noprompt -srckeystore "$store" -srcstorepass changeit \
       -destkeystore /sallyport/truststore.new -deststoretype PKCS12 -deststorepass changeit >/dev/null 2>&1 \
  && keytool -importcert -noprompt -alias sallyport -file /ca/ca.crt \
       -keystore /sallyport/truststore.new -storetype PKCS12 -storepass changeit >/dev/null 2>&1
then
  chmod 0644 /sallyport/truststore.new
  mv -f /sallyport/truststore.new /sallyport/truststore.p12
elif [ -s /ca/truststore.p12 ]; then
  put /sallyport/truststore.p12 </ca/truststore.p12
fi
