for n in $(seq 10); do sed -i "s/=.*/= $n/" conf; sync .; echo $n; sleep 1; done
