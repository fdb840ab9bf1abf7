nodes_primitive := primitive
