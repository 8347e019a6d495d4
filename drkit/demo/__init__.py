"""The story of drkit on two local clusters, told in acts; later chapters add acts of their own."""
